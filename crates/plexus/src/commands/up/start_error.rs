//! Errors of a hub that cannot start.
//!
//! A second hub on the same data folder also finds its address in use. The data folder is checked first, so that the
//! error names the actual cause.

use std::path::Path;

use plexus_hub::HubError;
use plexus_store::StoreError;

use crate::failure::{Exit, Failure};
use crate::hub_file::Occupant;

/// Fails if a hub runs on the data folder. This only gives an early error: the lock is what keeps a second hub out.
pub(super) fn check_unoccupied(data_dir: &Path) -> Result<(), Failure> {
    let mut message = format!("a hub already runs on the data folder {}", data_dir.display());
    match Occupant::of(data_dir) {
        // If its files cannot be read, the hub reports that when it takes the lock.
        Ok(Occupant::None) | Err(_) => return Ok(()),
        Ok(Occupant::Unready(None)) => {}
        Ok(Occupant::Unready(Some(pid))) => message.push_str(&format!(" (process {pid})")),
        Ok(Occupant::Hub(hub)) => {
            let url = hub.url.as_str().trim_end_matches('/');
            message.push_str(&format!(" (process {}), at {url}", hub.pid));
        }
    }
    let hint =
        "use that hub, or stop it with `plexus down`; a second hub needs another --data-dir and --listen";
    Err(Failure::new(Exit::Failed, message).hint(hint))
}

/// Adds a hint to a startup error.
pub(super) fn explain(error: HubError) -> anyhow::Error {
    match error {
        HubError::Listen { address, source } => {
            Failure::new(Exit::Failed, format!("cannot listen on {address}: {source}"))
                .hint("choose another address with --listen; 127.0.0.1:0 selects a free port")
                .into()
        }
        HubError::Tls(error) => Failure::new(Exit::Usage, error.what).hint(error.fix).into(),
        HubError::Store(error) => database_error(error),
        other => other.into(),
    }
}

/// Adds a hint to the error of a hub that was not started with the database of its data folder.
fn database_error(error: StoreError) -> anyhow::Error {
    let hint = match &error {
        StoreError::OtherDatabase { folder, .. } => format!(
            "set the URL of its database in PLEXUS_DATABASE_URL or --database-url; to move it to another database, \
             restore an export there first with `plexus db restore --data-dir {folder}`"
        ),
        StoreError::DatabaseGone { .. } => "restore the file, or restore a backup into a new folder; a hub on PostgreSQL \
             needs its URL in PLEXUS_DATABASE_URL or --database-url; to start a new audit log with these keys, move \
             audit.head and database.json away"
            .to_owned(),
        _ => return error.into(),
    };
    Failure::new(Exit::Failed, error.to_string()).hint(hint).into()
}
