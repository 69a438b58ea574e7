//! Whether a hub runs, takes requests, and is of the same version as this program.

use plexus_kit::{ExposeSecret, Secret};
use plexus_proto::api::Status;

use super::{Finding, Subject};
use crate::client::Hub;
use crate::commands::Invocation;
use crate::failure::Failure;

const CHECK: &str = "hub";

/// What was seen of a running hub.
pub(super) struct Seen {
    pub(super) url: String,
    /// Its clock, as HTTP writes it.
    pub(super) date: Option<String>,
}

pub(super) async fn check(subject: &Subject, invocation: &Invocation<'_>) -> (Vec<Finding>, Option<Seen>) {
    let hub = match invocation.hub() {
        Ok(hub) => hub,
        Err(error) => {
            let hint = error.downcast_ref::<Failure>().and_then(|failure| failure.hint.clone());
            let fix = hint.unwrap_or_else(|| "name the hub with --hub or PLEXUS_HUB".to_owned());
            return (vec![Finding::problem(CHECK, error.to_string(), fix)], None);
        }
    };
    let Ok(alive) = hub.probe("/healthz").await else {
        let message = format!("nobody answers at {}", hub.url());
        return (vec![Finding::warning(CHECK, message, format!("{} up", subject.plexus))], None);
    };
    if !alive.ok || alive.body.trim() != "ok" {
        let message = format!("what answers at {} is not a hub", hub.url());
        let fix = "choose another address for the hub: plexus up --listen 127.0.0.1:0";
        return (vec![Finding::problem(CHECK, message, fix)], None);
    }
    if !invocation.names_hub() && !subject.config.data_dir.join("hub.json").exists() {
        let message = format!("none runs on this data folder; the one at {} belongs to another", hub.url());
        return (vec![Finding::warning(CHECK, message, format!("{} up", subject.plexus))], None);
    }
    let seen = Seen { url: hub.url().to_owned(), date: alive.date };
    let mut found = vec![ready(&hub).await];
    match status(&hub).await {
        Ok(status) => {
            found.push(version(&status));
            found.extend(database(&status, subject).filter(|_| !invocation.names_hub()));
            found.extend(audit(&status));
        }
        Err(error) => found.push(Finding::problem(
            "version",
            format!("the hub does not tell its version: {error}"),
            "unset PLEXUS_TOKEN, or set it to a token with the scope read:status",
        )),
    }
    (found, Some(seen))
}

async fn ready(hub: &Hub) -> Finding {
    match hub.probe("/readyz").await {
        Ok(answer) if answer.ok => Finding::ok(CHECK, format!("takes requests at {}", hub.url())),
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

/// A hub that was given another database than this command: then the other checks looked elsewhere.
fn database(status: &Status, subject: &Subject) -> Option<Finding> {
    let is_server = |url: &Secret| url.expose_secret().starts_with("postgres");
    let here =
        if subject.config.database_url.as_ref().is_some_and(is_server) { "postgresql" } else { "sqlite" };
    (status.database != here).then(|| {
        let message = format!("the hub's database is {}, that of this configuration {here}", status.database);
        let fix = "run this with the hub's configuration: the same --config or PLEXUS_DATABASE_URL";
        Finding::problem("database", message, fix)
    })
}

fn audit(status: &Status) -> Option<Finding> {
    (!status.audit.intact_at_start).then(|| {
        let message = "it did not match its signed head when the hub started, or at a start before";
        Finding::problem("audit", message, "plexus audit verify")
    })
}
