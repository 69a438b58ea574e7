//! Why a hub cannot start here, told so that a person sees which of two reasons is the real one: a
//! second hub on a data folder finds its address taken, too, by the first.

use std::path::Path;

use plexus_hub::HubError;
use plexus_store::StoreError;

use crate::failure::{Exit, Failure};
use crate::hub_file::Occupant;

/// Fails where a hub runs on the data folder. It is the lock that keeps a second one out; this only
/// looks whether somebody holds it.
pub(super) fn unoccupied(data_dir: &Path) -> Result<(), Failure> {
    let mut message = format!("a hub already runs on the data folder {}", data_dir.display());
    match Occupant::of(data_dir) {
        // Whatever is wrong with its files, the hub itself finds out when it takes the lock.
        Ok(Occupant::None) | Err(_) => return Ok(()),
        Ok(Occupant::Unready(None)) => {}
        Ok(Occupant::Unready(Some(pid))) => message.push_str(&format!(" (process {pid})")),
        Ok(Occupant::Hub(hub)) => {
            let url = hub.url.as_str().trim_end_matches('/');
            message.push_str(&format!(" (process {}), at {url}", hub.pid));
        }
    }
    let hint = "use that one, or stop it first with `plexus down`; a second hub needs its own --data-dir and --listen";
    Err(Failure::new(Exit::Failed, message).hint(hint))
}

/// What a person is told of a start that failed.
pub(super) fn explained(error: HubError) -> anyhow::Error {
    match error {
        HubError::Listen { address, source } => {
            Failure::new(Exit::Failed, format!("cannot listen on {address}: {source}"))
                .hint("choose another address with --listen; 127.0.0.1:0 takes any free port")
                .into()
        }
        HubError::Tls(error) => Failure::new(Exit::Usage, error.what).hint(error.fix).into(),
        HubError::Store(error) => database(error),
        other => other.into(),
    }
}

/// The hint of a data folder that is not started with its own database.
fn database(error: StoreError) -> anyhow::Error {
    let hint = match &error {
        StoreError::OtherDatabase { folder, .. } => format!(
            "start it with the URL of its database in PLEXUS_DATABASE_URL or --database-url; to move it to another \
             database, restore an export there first with `plexus db restore --data-dir {folder}`"
        ),
        StoreError::DatabaseGone { .. } => "put the file back, or restore a backup into a new folder; a hub on \
             PostgreSQL needs its URL in PLEXUS_DATABASE_URL or --database-url; to begin a new record with these keys, \
             move audit.head and database.json away"
            .to_owned(),
        _ => return error.into(),
    };
    Failure::new(Exit::Failed, error.to_string()).hint(hint).into()
}
