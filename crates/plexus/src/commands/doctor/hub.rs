//! Whether a hub runs, takes requests, and is of the same version as this program.

use plexus_proto::api::Status;

use super::{Finding, Subject};
use crate::client::Hub;
use crate::commands::Invocation;

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
            return (vec![Finding::problem(CHECK, error.to_string(), "correct --hub or PLEXUS_HUB")], None);
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
    (vec![ready(&hub).await, version(&hub).await], Some(seen))
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

async fn version(hub: &Hub) -> Finding {
    const CHECK: &str = "version";
    let own = env!("CARGO_PKG_VERSION");
    let status = match hub.get(&["status"], &[]).await {
        Ok(answer) => answer.decode::<Status>(),
        Err(error) => Err(error),
    };
    match status {
        Ok(status) if status.version == own => {
            Finding::ok(CHECK, format!("plexus {own}, as the hub; database {}", status.database))
        }
        Ok(status) => {
            let message = format!("this is plexus {own}, the hub is {}", status.version);
            Finding::warning(
                CHECK,
                message,
                "restart the hub with this program, or install the hub's version here",
            )
        }
        Err(error) => {
            let message = format!("the hub does not tell its version: {error}");
            Finding::problem(
                CHECK,
                message,
                "unset PLEXUS_TOKEN, or set it to a token with the scope read:status",
            )
        }
    }
}
