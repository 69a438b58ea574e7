//! `plexus node invite`: prints the one line to run on a machine that is to join.
//!
//! That line is alone on standard output; what there is to say about it goes to standard error.

use clap::Args;
use plexus_proto::api::{InviteNodeParams, NodeInvite};

use crate::arguments;
use crate::client::Hub;
use crate::output::{Output, one_line};
use crate::{shell, target};

#[derive(Debug, Args)]
pub(super) struct InviteArgs {
    /// What the machine will be called here: small letters, digits, `_` and `-`
    name: String,
    /// A label of it, such as role=nas; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = arguments::label)]
    labels: Vec<(String, String)>,
    /// How long the code is good: 15m, 12h, 7d [default: 15m]
    #[arg(long, value_name = "TIME", value_parser = arguments::ttl)]
    ttl: Option<u64>,
    /// For a node that is there and has lost its credential: it keeps its id, and what it had ends
    #[arg(long)]
    rejoin: bool,
}

pub(super) async fn run(out: &Output, hub: &Hub, args: InviteArgs) -> anyhow::Result<()> {
    let InviteArgs { name, labels, ttl, rejoin } = args;
    let params = InviteNodeParams { name, labels: labels.into_iter().collect(), ttl_seconds: ttl, rejoin };
    let mut invite: NodeInvite = hub.post(&["nodes", "invites"], &params, &[]).await?.decode()?;
    // Who reaches the hub from elsewhere knows better than the hub where that is.
    if is_here(&invite.hub) && !is_here(hub.url()) {
        invite.hub = hub.url().to_owned();
    }
    if out.json() {
        return out.json_line(&serde_json::to_string(&invite)?);
    }
    let url = one_line(&invite.hub);
    out.note(&format!(
        "Run this once on the machine that is to be {}, until {}:",
        one_line(&invite.name),
        out.at(invite.expires_at)
    ));
    out.line(&format!("plexus node join {} {}", shell::name(&url), shell::name(&one_line(&invite.code))))?;
    out.note("Then, there: `plexus node run`, which links it to the hub for as long as it runs. `plexus node list` shows it.");
    if is_here(&invite.hub) {
        out.note(&format!(
            "warning: {url} is an address of the hub's own machine: from another one it leads nowhere. Set `listen` and \
             `public_url` in the hub's plexus.toml, restart the hub, and invite again. \
             Over an SSH tunnel, put its address into the command instead."
        ));
    }
    Ok(())
}

/// An address that means another machine wherever it is used.
fn is_here(url: &str) -> bool {
    target::parse_url(url, "the hub's URL").is_ok_and(|url| target::is_loopback(&url))
}
