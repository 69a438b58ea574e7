//! The settings in effect, each with where it came from; nothing secret can be read from here.

use plexus_proto::api::ConfigSetting;

use super::{Config, Origin, Setting, Value};

/// One setting in effect.
#[derive(Debug, Clone)]
pub struct Effective {
    pub setting: &'static Setting,
    pub value: Value,
    pub origin: Origin,
}

#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// One for each of [`super::SETTINGS`], in that order.
    all: Vec<Effective>,
    warnings: Vec<String>,
}

impl Settings {
    pub(super) fn new(all: Vec<Effective>, warnings: Vec<String>) -> Self {
        Self { all, warnings }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Effective> {
        self.all.iter()
    }

    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Effective> {
        self.all.iter().find(|effective| effective.setting.key == key)
    }

    /// What was written, made definite.
    pub(super) fn replace(&mut self, key: &str, value: Value) {
        if let Some(effective) = self.all.iter_mut().find(|effective| effective.setting.key == key) {
            effective.value = value;
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Effective> {
        self.all.iter_mut()
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
        self.all.iter().map(report).collect()
    }
}

impl Config {
    /// What works but should not stay as it is.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.settings.warnings
    }
}
