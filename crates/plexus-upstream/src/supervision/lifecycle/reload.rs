//! Applies the files to the units; only changed servers are touched.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plexus_kit::Stage;
use plexus_proto::api::{ReloadFailure, ReloadReport};

use super::Lifecycle;
use crate::config::{Entry, Reading, ServerConfig, Transport};
use crate::supervision::unit::Unit;
use crate::supervision::{Upstreams, status};

/// The result of reading the files.
#[derive(Debug, Default)]
pub(in crate::supervision) struct AppliedReload {
    added: Vec<(Arc<Unit>, u64)>,
    changed: Vec<(Arc<Unit>, u64)>,
    /// Unchanged servers that have not reached their desired state yet, because the folder watcher applied
    /// the change just before this reload.
    pending: Vec<(Arc<Unit>, u64)>,
    removed: Vec<String>,
}

impl Upstreams {
    /// Rereads the files and restarts only changed servers. Reports the outcome of servers that settle in
    /// time.
    ///
    /// A folder that cannot be read changes nothing, because that is no reason to stop running servers.
    pub async fn reload(&self) -> ReloadReport {
        self.reload_within(self.0.shared.timing.settle).await
    }

    /// Like [`Self::reload`], waiting at most `patience` for started servers.
    pub async fn reload_within(&self, patience: Duration) -> ReloadReport {
        match self.apply_files(Reading::All).await {
            Ok(applied) => applied.report(patience).await,
            Err(error) => {
                let name = self.folder().dir().display().to_string();
                let message = format!("the folder cannot be read, and nothing was changed: {error}");
                let failed = vec![ReloadFailure { name, message }];
                ReloadReport { failed, ..ReloadReport::default() }
            }
        }
    }

    /// Like [`Self::reload`], without waiting for any server.
    pub(super) async fn apply_files(&self, reading: Reading) -> Result<AppliedReload, String> {
        // One at a time, so that an older scan is not applied after a newer one.
        let _turn = self.0.reloading.lock().await;
        Ok(self.apply(self.scan(reading).await?))
    }

    /// Requests a restart of one server with its current file and references; returns the turn to wait for.
    /// If the file cannot be read, the configuration stays. No other server is touched.
    pub(in crate::supervision) async fn restart_from_file(&self, unit: &Unit) -> u64 {
        let _turn = self.0.reloading.lock().await;
        let entries = self.scan(Reading::One(unit.name.clone())).await.unwrap_or_default();
        let target = entries.into_iter().find(|entry| entry.name == unit.name).map(Target::of);
        unit.request_restart(target)
    }

    async fn scan(&self, reading: Reading) -> Result<Vec<Entry>, String> {
        let this = self.clone();
        let scan = move || this.folder().scan_for(&reading).map_err(|error| error.to_string());
        tokio::task::spawn_blocking(scan).await.map_err(|error| error.to_string()).flatten()
    }

    /// Sets the desired state of each unit to its current file.
    pub(in crate::supervision) fn apply(&self, entries: Vec<Entry>) -> AppliedReload {
        let mut applied = AppliedReload::default();
        let mut units = self.lock();
        let present_names: BTreeSet<String> = entries.iter().map(|entry| entry.name.clone()).collect();
        units.retain(|name, unit| {
            let stays = present_names.contains(name);
            if !stays {
                unit.retire();
                applied.removed.push(name.clone());
            }
            stays
        });
        for entry in entries {
            let (name, slug) = (entry.name.clone(), entry.slug.clone().unwrap_or_default());
            let target = Target::of(entry);
            let config = target.config().cloned();
            match units.get(&name) {
                Some(unit) => {
                    if let Some(turn) = unit.set_target(target) {
                        warn(&name, config.as_deref());
                        applied.changed.push((unit.clone(), turn));
                    } else if let Some(turn) = unit.pending() {
                        applied.pending.push((unit.clone(), turn));
                    }
                }
                None => {
                    warn(&name, config.as_deref());
                    let unit = Unit::new(name.clone(), slug, target, self.0.shared.clone());
                    let life = Lifecycle::new(unit.clone());
                    let supervisor = &self.0.shared.supervisor;
                    supervisor.spawn(Stage::Work, format!("upstream {name}"), life.run());
                    applied.added.push((unit.clone(), 1));
                    units.insert(name, unit);
                }
            }
        }
        self.0.shared.changed();
        applied
    }
}

/// Logs the warnings of a file when it is applied.
fn warn(name: &str, config: Option<&ServerConfig>) {
    for warning in config.map(|config| config.warnings.as_slice()).unwrap_or_default() {
        tracing::warn!(server = name, "{warning}");
    }
}

impl AppliedReload {
    /// Names of the servers whose files were added, removed or changed.
    pub(in crate::supervision) fn names(&self) -> Vec<&str> {
        let started = self.added.iter().chain(&self.changed).map(|(unit, _)| unit.name.as_str());
        started.chain(self.removed.iter().map(String::as_str)).collect()
    }

    /// Waits for all started servers concurrently.
    async fn report(self, patience: Duration) -> ReloadReport {
        let names = |units: &[(Arc<Unit>, u64)]| units.iter().map(|(unit, _)| unit.name.clone()).collect();
        let mut report = ReloadReport {
            added: names(&self.added),
            removed: self.removed,
            changed: names(&self.changed),
            failed: Vec::new(),
        };
        let started = self.added.iter().chain(&self.changed).chain(&self.pending);
        let settled = started.map(|(unit, turn)| async move { (unit, unit.settled(*turn, patience).await) });
        for (unit, status) in futures_util::future::join_all(settled).await {
            if let Some(mut message) = status::trouble(&status) {
                if let Some(remark) = unit.remark(status.state) {
                    message.push_str(&format!("; {remark}"));
                }
                report.failed.push(ReloadFailure { name: unit.name.clone(), message });
            }
        }
        report.failed.sort_by(|one, other| one.name.cmp(&other.name));
        report
    }
}

/// A desired state. The unit reports the turn of the newest one that it has applied.
#[derive(Debug, Clone)]
pub(in crate::supervision) struct DesiredState {
    pub(in crate::supervision) turn: u64,
    /// Increases with each requested restart, even if the file is unchanged.
    pub(in crate::supervision) restarts: u64,
    pub(in crate::supervision) target: Target,
}

#[derive(Debug, Clone)]
pub(in crate::supervision) enum Target {
    Run(Arc<ServerConfig>),
    Off(Arc<ServerConfig>),
    /// The file is invalid.
    Wrong {
        file: PathBuf,
        message: Arc<str>,
    },
    /// The file was removed.
    Gone,
}

impl Target {
    pub(in crate::supervision) fn of(entry: Entry) -> Self {
        match entry.server {
            Ok(config) if config.enabled => Self::Run(Arc::new(config)),
            Ok(config) => Self::Off(Arc::new(config)),
            Err(problems) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                Self::Wrong { file: entry.file, message: problems.join("\n").into() }
            }
        }
    }

    pub(in crate::supervision) fn config(&self) -> Option<&Arc<ServerConfig>> {
        match self {
            Self::Run(config) | Self::Off(config) => Some(config),
            Self::Wrong { .. } | Self::Gone => None,
        }
    }

    /// True if a unit with this target has nothing to do to reach the other.
    pub(in crate::supervision) fn is_equivalent(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Run(one), Self::Run(other)) => {
                has_same_process_settings(one, other) && is_presented_alike(one, other)
            }
            (Self::Off(one), Self::Off(other)) => is_presented_alike(one, other),
            (Self::Wrong { file, message }, Self::Wrong { file: other_file, message: other }) => {
                file == other_file && message == other
            }
            (Self::Gone, Self::Gone) => true,
            _ => false,
        }
    }
}

/// Whether a server that was started with one configuration can continue with the other.
pub(super) fn has_same_process_settings(one: &ServerConfig, other: &ServerConfig) -> bool {
    one.fingerprint == other.fingerprint
}

/// Whether the hub presents the server in the same way.
fn is_presented_alike(one: &ServerConfig, other: &ServerConfig) -> bool {
    // Warnings about file permissions change without the content of the file.
    one.presentation == other.presentation && one.file == other.file && one.warnings == other.warnings
}

pub(super) fn is_process(config: &ServerConfig) -> bool {
    matches!(config.transport, Transport::Stdio(_))
}
