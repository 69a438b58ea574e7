//! The time, extent and result of the last verification of the whole audit log: a note in the data folder.
//!
//! It tells a person whether it is time to verify again. It proves nothing, so it is not signed.

use std::io;
use std::path::Path;

use plexus_kit::private_file;
use plexus_proto::Timestamp;
use plexus_proto::api::{AuditHead, AuditReport};
use serde::{Deserialize, Serialize};

/// Name of the note in the data folder.
const FILE: &str = "audit.verified";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastVerification {
    pub at: Timestamp,
    pub hub: String,
    pub ok: bool,
    /// Entries that were read: all that there were.
    pub entries: i64,
    /// The newest of them.
    pub head: Option<AuditHead>,
    pub problem_count: u64,
}

impl LastVerification {
    #[must_use]
    pub fn new(report: &AuditReport, at: Timestamp) -> Self {
        Self {
            at,
            hub: report.hub.clone(),
            ok: report.ok,
            entries: report.entries,
            head: report.head.clone(),
            problem_count: report.problem_count,
        }
    }

    /// None where the audit was never verified as a whole.
    pub fn read(data_dir: &Path) -> io::Result<Option<Self>> {
        let Some(bytes) = private_file::read(&data_dir.join(FILE))? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(Into::into)
    }

    pub fn write(&self, data_dir: &Path) -> io::Result<()> {
        private_file::write(&data_dir.join(FILE), &serde_json::to_vec(self)?)
    }
}
