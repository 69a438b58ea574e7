//! Why a hub cannot start here, told so that a person sees which of two reasons is the real one: a
//! second hub on a data folder finds its address taken, too, by the first.

use std::path::Path;

use plexus_hub::HubError;

use crate::failure::{Exit, Failure};
use crate::hub_file::{HubFile, HubLock};

/// Fails where a hub runs on the data folder. It is the lock that keeps a second one out; this only
/// looks whether somebody holds it.
pub(super) fn unoccupied(data_dir: &Path) -> Result<(), Failure> {
    // Whatever else is wrong with it, the hub itself finds out when it takes the lock.
    let Some(holder) = HubLock::holder(data_dir) else { return Ok(()) };
    let mut message = format!("a hub already runs on the data folder {}", data_dir.display());
    if let Some(pid) = holder {
        message.push_str(&format!(" (process {pid})"));
    }
    // One that was killed left its address behind, and the next one may not be ready.
    if let Some(hub) = HubFile::read(data_dir).ok().flatten().filter(|hub| Some(hub.pid) == holder) {
        message.push_str(&format!(", at {}", hub.url.as_str().trim_end_matches('/')));
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
        other => other.into(),
    }
}
