//! The configuration of a running hub, which a reload changes as a whole.

use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use super::Config;

/// Cheap to clone; all clones are one. A request loads it once and sees one configuration to its end.
#[derive(Clone)]
pub struct LiveConfig(Arc<ArcSwap<Config>>);

impl LiveConfig {
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(config)))
    }

    /// What holds now. Not to be kept across an await: what waits takes [`Self::snapshot`].
    #[must_use]
    pub fn load(&self) -> Guard<Arc<Config>> {
        self.0.load()
    }

    /// What holds now, to keep.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Config> {
        self.0.load_full()
    }

    /// Takes from `read` what a running hub can take, and says what it took and what it did not.
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

/// A setting that is not what it was; nothing secret is in here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub key: &'static str,
    pub old: String,
    pub new: String,
}

/// What a reload did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Holds from now on.
    pub changed: Vec<Change>,
    /// Keeps its old value until the hub is started again.
    pub needs_restart: Vec<Change>,
}

impl Config {
    /// This configuration with what can be taken from a new one while the hub runs.
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
            // It was applied when the hub started, so it can be applied again.
            let _ = setting.apply(&mut config, &old.value);
            *new = old.clone();
        }
        config.settings = settings;
        (config, reloaded)
    }
}
