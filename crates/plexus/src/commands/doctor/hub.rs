//! Whether a hub runs, takes requests, and is of the same version as this program.

use std::path::Path;

use plexus_proto::api::Status;

use super::{Finding, Subject};
use crate::client::Hub;
use crate::commands::{FolderHub, Invocation};
use crate::failure::Failure;

const CHECK: &str = "hub";

/// What was seen of a running hub.
pub(super) struct Seen {
    pub(super) hub: Hub,
    /// Whether it is the one that runs on the data folder, and not one that was named.
    pub(super) on_folder: bool,
    /// Its clock, as HTTP writes it.
    pub(super) date: Option<String>,
    /// None where the token may not ask.
    pub(super) status: Option<Status>,
}

impl Seen {
    pub(super) fn url(&self) -> &str {
        self.hub.url()
    }
}

pub(super) async fn check(subject: &Subject, invocation: &Invocation<'_>) -> (Vec<Finding>, Option<Seen>) {
    let up = || format!("{} up", subject.plexus);
    let problem = |message: String, fix: String| (vec![Finding::problem(CHECK, message, fix)], None);
    let (hub, on_folder) = match invocation.hub_of_folder() {
        Ok(FolderHub::Named(hub)) => (hub, false),
        Ok(FolderHub::Runs { hub, .. }) => (hub, true),
        Ok(FolderHub::Unready { pid, .. }) => {
            let process = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
            let message = format!("the data folder is held by a process that takes no requests{process}");
            let fix = "wait until the hub has started or the command that uses the database has ended";
            return problem(message, fix.to_owned());
        }
        Ok(FolderHub::Default(_)) => return problem("none runs on this machine".to_owned(), up()),
        Ok(FolderHub::Down { folder }) => {
            return problem(format!("none runs on the data folder {}", folder.display()), up());
        }
        Err(error) => {
            let hint = error.downcast_ref::<Failure>().and_then(|failure| failure.hint.clone());
            let fix = hint.unwrap_or_else(|| "name the hub with --hub or PLEXUS_HUB".to_owned());
            return problem(error.to_string(), fix);
        }
    };
    let Ok(alive) = hub.probe("/healthz").await else {
        let fix = match on_folder {
            true => "see its log; if it hangs, stop it and start it again".to_owned(),
            false => "start it there, or correct --hub or PLEXUS_HUB".to_owned(),
        };
        return problem(format!("nobody answers at {}", hub.url()), fix);
    };
    if !alive.ok || alive.body.trim() != "ok" {
        let message = format!("what answers at {} is not a hub", hub.url());
        let fix = "choose another address for the hub: plexus up --listen 127.0.0.1:0";
        return problem(message, fix.to_owned());
    }
    let mut found = vec![ready(&hub, on_folder.then_some(subject.config.data_dir.as_path())).await];
    let status = match status(&hub).await {
        Ok(status) => {
            found.push(version(&status));
            Some(status)
        }
        Err(error) => {
            found.push(Finding::problem(
                "version",
                format!("the hub does not tell its version: {error}"),
                "unset PLEXUS_TOKEN, or set it to a token with the scope read:status",
            ));
            None
        }
    };
    (found, Some(Seen { hub, on_folder, date: alive.date, status }))
}

async fn ready(hub: &Hub, folder: Option<&Path>) -> Finding {
    let on = folder.map(|folder| format!(", on the data folder {}", folder.display())).unwrap_or_default();
    match hub.probe("/readyz").await {
        Ok(answer) if answer.ok => Finding::ok(CHECK, format!("takes requests at {}{on}", hub.url())),
        Ok(answer) => {
            let message = format!("{} is not ready: {}", hub.url(), answer.body.trim());
            Finding::problem(
                CHECK,
                message,
                "wait a moment; then see the hub's log and `plexus doctor` again",
            )
        }
        Err(error) => Finding::problem(CHECK, error.to_string(), "see the hub's log"),
    }
}

async fn status(hub: &Hub) -> anyhow::Result<Status> {
    hub.get(&["status"], &[]).await?.decode()
}

fn version(status: &Status) -> Finding {
    const CHECK: &str = "version";
    let own = env!("CARGO_PKG_VERSION");
    if status.version == own {
        return Finding::ok(CHECK, format!("plexus {own}, as the hub; database {}", status.database));
    }
    let message = format!("this is plexus {own}, the hub is {}", status.version);
    Finding::warning(CHECK, message, "restart the hub with this program, or install the hub's version here")
}
