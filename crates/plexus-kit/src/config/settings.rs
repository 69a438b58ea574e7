//! The effective settings with their origins; secrets are redacted when shown.

use plexus_proto::api::ConfigSetting;

use super::{Config, Origin, Setting, Value};

/// An effective setting.
#[derive(Debug, Clone)]
pub struct EffectiveSetting {
    pub setting: &'static Setting,
    pub value: Value,
    pub origin: Origin,
}

#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// One entry per [`super::SETTINGS`] element, in the same order.
    all: Vec<EffectiveSetting>,
    warnings: Vec<String>,
}

impl Settings {
    pub(super) fn new(all: Vec<EffectiveSetting>, warnings: Vec<String>) -> Self {
        Self { all, warnings }
    }

    pub fn iter(&self) -> impl Iterator<Item = &EffectiveSetting> {
        self.all.iter()
    }

    #[must_use]
    pub fn get(&self, key: &str) -> Option<&EffectiveSetting> {
        self.all.iter().find(|effective| effective.setting.key == key)
    }

    /// Replaces a value as written with its resolved form.
    pub(super) fn replace(&mut self, key: &str, value: Value) {
        if let Some(effective) = self.all.iter_mut().find(|effective| effective.setting.key == key) {
            effective.value = value;
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut EffectiveSetting> {
        self.all.iter_mut()
    }

    /// The effective settings for display, with secrets redacted.
    #[must_use]
    pub fn report(&self) -> Vec<ConfigSetting> {
        let report = |effective: &EffectiveSetting| ConfigSetting {
            key: effective.setting.key.to_owned(),
            value: effective.value.to_json(),
            origin: effective.origin.to_string(),
            reloadable: effective.setting.reload,
        };
        self.all.iter().map(report).collect()
    }
}

impl Config {
    /// Settings that work but should be changed.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.settings.warnings
    }
}
