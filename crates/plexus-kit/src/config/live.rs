//! The configuration of a running hub, replaced as a whole on reload.

use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use super::Config;

/// Cheap to clone; all clones share one configuration. A request loads it once, and so sees one configuration
/// until it ends.
#[derive(Clone)]
pub struct LiveConfig(Arc<ArcSwap<Config>>);

impl LiveConfig {
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(config)))
    }

    /// The current configuration. Do not hold the guard across an await; use [`Self::snapshot`] for that.
    #[must_use]
    pub fn load(&self) -> Guard<Arc<Config>> {
        self.0.load()
    }

    /// An owned reference to the current configuration.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Config> {
        self.0.load_full()
    }

    /// Applies the reloadable settings of `read`, and reports which changes were applied and which need a
    /// restart.
    pub fn reload(&self, read: Config) -> Reloaded {
        let (config, reloaded) = self.load().reloaded(read);
        self.0.store(Arc::new(config));
        reloaded
    }
}

impl fmt::Debug for LiveConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveConfig").field(&self.load()).finish()
    }
}

/// A changed setting, with secrets redacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub key: &'static str,
    pub old: String,
    pub new: String,
}

/// Result of a reload.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Effective immediately.
    pub changed: Vec<Change>,
    /// Keeps the old value until the hub is restarted.
    pub needs_restart: Vec<Change>,
}

impl Config {
    /// This configuration with the reloadable settings of a new one.
    fn reloaded(&self, read: Self) -> (Self, Reloaded) {
        let (mut config, mut reloaded) = (read, Reloaded::default());
        let mut settings = std::mem::take(&mut config.settings);
        for (new, old) in settings.iter_mut().zip(self.settings.iter()) {
            if new.value == old.value {
                continue;
            }
            let setting = new.setting;
            let change = Change { key: setting.key, old: old.value.shown(), new: new.value.shown() };
            if setting.reload {
                reloaded.changed.push(change);
                continue;
            }
            reloaded.needs_restart.push(change);
            // Cannot fail: the value was accepted at startup.
            let _ = setting.apply(&mut config, &old.value);
            *new = old.clone();
        }
        config.settings = settings;
        (config, reloaded)
    }
}
