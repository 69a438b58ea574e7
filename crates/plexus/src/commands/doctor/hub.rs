//! Checks that a hub runs, accepts requests, and has the version of this program.

use plexus_proto::api::Status;

use super::{CheckContext, Finding};
use crate::client::Hub;
use crate::commands::{FolderHub, Invocation};
use crate::failure::Failure;
use crate::hub_file::Occupant;

const CHECK: &str = "hub";

/// A hub that responded.
pub(super) struct RunningHub {
    pub(super) hub: Hub,
    /// Whether it runs on the data folder.
    pub(super) on_folder: bool,
    /// What findings call it: for a hub that does not run on the data folder, its URL and that it does not.
    pub(super) subject: String,
    /// Its `Date` header.
    pub(super) date: Option<String>,
    /// None if the token may not read it.
    pub(super) status: Option<Status>,
}

impl RunningHub {
    pub(super) fn url(&self) -> &str {
        self.hub.url()
    }
}

pub(super) async fn check(
    context: &CheckContext,
    invocation: &Invocation<'_>,
) -> (Vec<Finding>, Option<RunningHub>) {
    let up = || format!("{} up", context.plexus);
    let problem = |message: String, fix: String| (vec![Finding::problem(CHECK, message, fix)], None);
    let (hub, on_folder) = match invocation.hub_of_folder() {
        Ok(FolderHub::Named(hub)) => {
            let own = Occupant::of(&context.config.data_dir);
            let is_own = matches!(own, Ok(Occupant::Hub(own)) if own.is_at(hub.url()));
            (hub, is_own)
        }
        Ok(FolderHub::Runs { hub, .. }) => (hub, true),
        Ok(FolderHub::Unready { pid, .. }) => {
            let process = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
            let message = format!("the data folder is in use by a process that accepts no requests{process}");
            let fix = "wait until the hub has started or the command that uses the database has finished";
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
    let shown = context.config.data_dir.display();
    let (subject, on) = match on_folder {
        true => (format!("the hub at {}", hub.url()), format!(" on the data folder {shown}")),
        false => {
            (format!("the hub at {} (not the hub of the data folder {shown})", hub.url()), String::new())
        }
    };
    let Ok(alive) = hub.probe("/healthz").await else {
        let fix = match on_folder {
            true => "see its log; if it hangs, restart it".to_owned(),
            false => "start it there, or correct --hub or PLEXUS_HUB".to_owned(),
        };
        return problem(format!("no response from {subject}"), fix);
    };
    if !alive.ok || alive.body.trim() != "ok" {
        let message = format!("the server at {} is not a hub", hub.url());
        let fix = "choose another address for the hub: plexus up --listen 127.0.0.1:0";
        return problem(message, fix.to_owned());
    }
    let mut found = vec![ready(&hub, &subject, &on).await];
    let status = match status(&hub).await {
        Ok(status) => {
            found.push(version(&status, &subject));
            Some(status)
        }
        Err(error) => {
            found.push(Finding::problem(
                "version",
                format!("cannot read the version of {subject}: {error}"),
                "unset PLEXUS_TOKEN, or set it to a token with the scope read:status",
            ));
            None
        }
    };
    (found, Some(RunningHub { hub, on_folder, subject, date: alive.date, status }))
}

async fn ready(hub: &Hub, subject: &str, on: &str) -> Finding {
    match hub.probe("/readyz").await {
        Ok(answer) if answer.ok => Finding::ok(CHECK, format!("{subject} accepts requests{on}")),
        Ok(answer) => {
            let message = format!("{subject} is not ready: {}", answer.body.trim());
            Finding::problem(
                CHECK,
                message,
                "wait a moment and run `plexus doctor` again; if this persists, see the hub's log",
            )
        }
        Err(error) => {
            Finding::problem(CHECK, format!("{subject} is not ready: {error}"), "see the hub's log")
        }
    }
}

async fn status(hub: &Hub) -> anyhow::Result<Status> {
    hub.get(&["status"], &[]).await?.decode()
}

fn version(status: &Status, subject: &str) -> Finding {
    const CHECK: &str = "version";
    let own = env!("CARGO_PKG_VERSION");
    if status.version == own {
        let message = format!("plexus {own}, same as {subject}; its database is {}", status.database);
        return Finding::ok(CHECK, message);
    }
    let message = format!("this is plexus {own}, but {subject} is {}", status.version);
    Finding::warning(CHECK, message, "restart the hub with this program, or install the hub's version here")
}
