//! The recorded connections and the synchronization of their instructions.

use std::path::PathBuf;

use super::{Bridge, InstructionContent};
use crate::error::BridgeError;
use crate::ledger::{Backup, Connection, FileProblem};

/// The result of a sync.
#[derive(Debug, Default)]
pub struct SyncResult {
    pub agents: usize,
    pub written: Vec<PathBuf>,
    pub problems: Vec<BridgeError>,
}

impl Bridge {
    /// Changes the record of a connection; false if it does not exist.
    pub fn update(&self, key: &str, change: impl FnOnce(&mut Connection)) -> Result<bool, BridgeError> {
        if self.ledger()?.connections.is_empty() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let mut ledger = self.recover_ledger()?;
        let Some(connection) = ledger.connections.get_mut(key) else { return Ok(false) };
        let before = connection.clone();
        change(connection);
        if *connection != before {
            ledger.write(&self.folder)?;
        }
        Ok(true)
    }

    /// Forgets a connection without any remaining content; true if it was forgotten.
    pub fn forget(&self, key: &str) -> Result<bool, BridgeError> {
        if !self.ledger()?.connections.contains_key(key) {
            return Ok(true);
        }
        let _lock = self.lock()?;
        let mut ledger = self.recover_ledger()?;
        if ledger.connections.get(key).is_some_and(|connection| connection.files.is_empty()) {
            ledger.connections.remove(key);
            ledger.write(&self.folder)?;
        }
        Ok(!ledger.connections.contains_key(key))
    }

    /// Updates the instructions of all connections that are not paused, or of one connection.
    pub fn sync(&self, content: &InstructionContent, only: Option<&str>) -> Result<SyncResult, BridgeError> {
        let mut synced = SyncResult::default();
        let ledger = self.recovered_ledger()?;
        for (key, connection) in &ledger.connections {
            let selected = only.is_none_or(|only| only == key) && connection.instructions;
            if !selected || (connection.paused && only.is_none()) {
                continue;
            }
            synced.agents += 1;
            let mut plan = self.plan_sync(&ledger, key, content);
            let mut problems = std::mem::take(&mut plan.problems);
            for change in plan.changes {
                match self.apply(&change, None) {
                    Ok(true) => synced.written.push(change.path),
                    Ok(false) => {}
                    Err(error) => problems.push(error),
                }
            }
            let troubles: Vec<FileProblem> = problems.iter().map(FileProblem::from_error).collect();
            synced.problems.extend(problems);
            let now = self.clock.now();
            self.update(key, |connection| {
                connection.troubles = troubles;
                connection.last_sync_at = Some(now);
            })?;
        }
        Ok(synced)
    }

    /// The backups, newest first.
    pub fn backups(&self) -> Result<Vec<Backup>, BridgeError> {
        let mut backups = self.ledger()?.backups;
        backups.reverse();
        Ok(backups)
    }
}
