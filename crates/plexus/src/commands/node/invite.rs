//! `plexus node invite`: prints the command that joins another machine.
//!
//! Standard output has only the command; explanations go to standard error.

use clap::Args;
use plexus_proto::api::{InviteNodeParams, NodeInvite};

use crate::arguments;
use crate::client::Hub;
use crate::output::{Output, one_line};
use crate::{shell, target};

#[derive(Debug, Args)]
pub(super) struct InviteArgs {
    /// Name for the machine: lowercase letters, digits, `_` and `-`
    name: String,
    /// Label for the machine, such as role=nas (repeatable)
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = arguments::label)]
    labels: Vec<(String, String)>,
    /// How long the code is valid: 15m, 12h, 7d [default: 15m]
    #[arg(long, value_name = "TIME", value_parser = arguments::ttl)]
    ttl: Option<u64>,
    /// Replace the lost credential of an existing node: it keeps its id, and its old credential is revoked
    #[arg(long)]
    rejoin: bool,
}

pub(super) async fn run(out: &Output, hub: &Hub, args: InviteArgs) -> anyhow::Result<()> {
    let InviteArgs { name, labels, ttl, rejoin } = args;
    let params = InviteNodeParams { name, labels: labels.into_iter().collect(), ttl_seconds: ttl, rejoin };
    let mut invite: NodeInvite = hub.post(&["nodes", "invites"], &params, &[]).await?.decode()?;
    // A user on another machine has a URL that works from there; the hub only knows a loopback one.
    if is_loopback(&invite.hub) && !is_loopback(hub.url()) {
        invite.hub = hub.url().to_owned();
    }
    if out.json() {
        return out.json_line(&serde_json::to_string(&invite)?);
    }
    let url = one_line(&invite.hub);
    out.note(&format!(
        "Run this once on the machine that will be {}, before {}:",
        one_line(&invite.name),
        out.at(invite.expires_at)
    ));
    out.line(&format!("plexus node join {} {}", shell::name(&url), shell::name(&one_line(&invite.code))))?;
    out.note("Then run `plexus node run` there: it connects the machine to the hub while it runs. `plexus node list` shows it.");
    if is_loopback(&invite.hub) {
        out.note(&format!(
            "warning: {url} is an address of the hub's own machine and does not work from another machine. Set `listen` and \
             `public_url` in the hub's plexus.toml, restart the hub, and invite again. \
             To use an SSH tunnel, put its address into the command instead."
        ));
    }
    Ok(())
}

/// Whether the URL refers to whichever machine it is used on.
fn is_loopback(url: &str) -> bool {
    target::parse_url(url, "the hub's URL").is_ok_and(|url| target::is_loopback(&url))
}
