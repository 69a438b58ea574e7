//! The settings in effect, each with where it came from; nothing secret can be read from here.

use plexus_proto::api::ConfigSetting;
use secrecy::ExposeSecret;

use super::{Config, Origin, Setting, Value, secret_url};

/// One setting in effect.
#[derive(Debug, Clone)]
pub struct Effective {
    pub setting: &'static Setting,
    pub value: Value,
    pub origin: Origin,
}

/// One for each of [`super::SETTINGS`], in that order.
#[derive(Debug, Clone, Default)]
pub struct Settings(Vec<Effective>);

impl Settings {
    pub(super) fn new(all: Vec<Effective>) -> Self {
        Self(all)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Effective> {
        self.0.iter()
    }

    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Effective> {
        self.0.iter().find(|effective| effective.setting.key == key)
    }

    /// What was written, made definite.
    pub(super) fn replace(&mut self, key: &str, value: Value) {
        if let Some(effective) = self.0.iter_mut().find(|effective| effective.setting.key == key) {
            effective.value = value;
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Effective> {
        self.0.iter_mut()
    }

    /// For people and programs that ask what is in effect.
    #[must_use]
    pub fn report(&self) -> Vec<ConfigSetting> {
        let report = |effective: &Effective| ConfigSetting {
            key: effective.setting.key.to_owned(),
            value: effective.value.to_json(),
            origin: effective.origin.to_string(),
            reloadable: effective.setting.reload,
        };
        self.0.iter().map(report).collect()
    }
}

impl Config {
    /// What works but should not stay as it is.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let literal = |effective: &&Effective| {
            let secret = effective.value.secret().map(ExposeSecret::expose_secret);
            matches!(effective.origin, Origin::File { .. }) && secret.is_some_and(secret_url::has_password)
        };
        let told = |effective: &Effective| {
            let Setting { key, variable, .. } = effective.setting;
            format!(
                "{}: `{key}` holds a password in plain text; remove it from the file and set the variable \
                 {variable} instead",
                effective.origin
            )
        };
        self.settings.iter().filter(literal).map(told).collect()
    }
}
