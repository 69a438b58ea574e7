//! The token of a connected agent: no more than it needs, for a short time, renewed by its proxy.

use plexus_bridge::Grant;
use plexus_bridge::agents::Agent;
use serde_json::{Value, json};

use super::ConnectArgs;
use super::desk::{self, Desk};
use crate::client::Hub;
use crate::commands::Invocation;
use crate::commands::run::maker::{AgentWish, Maker};
use crate::output::Output;

/// Where the proxy can have another one made, and where it cannot, in seconds: a machine may be off for a while.
const LIFE_HERE: u64 = 24 * 60 * 60;
const LIFE_ELSEWHERE: u64 = 14 * 24 * 60 * 60;

/// The grant of the agent: the one that it has, if it is still good and nothing else was asked for, or a new one.
pub(super) async fn ensure(
    agent: &Agent,
    args: &ConnectArgs,
    maker: &Maker,
    desk: &Desk,
    invocation: &Invocation<'_>,
) -> anyhow::Result<Grant> {
    let grants = desk.keeper.grants();
    // One that cannot be read is of no use to its proxy either.
    let known = grants.read(agent.id).unwrap_or_default();
    let here = maker.target.here && !invocation.names_hub();
    let hub = (!here).then(|| maker.hub.url().to_owned());
    let as_it_is =
        args.profile.is_none() && args.scopes.is_empty() && args.nodes.is_empty() && args.ttl.is_none();
    if let Some(known) = &known
        && as_it_is
        && known.hub == hub
        && is_good(known, invocation).await
    {
        return Ok(known.clone());
    }
    let (asked, made) = maker
        .make_for_agent(&AgentWish {
            agent: agent.id,
            profile: args.profile.as_deref(),
            scopes: &args.scopes,
            nodes: &args.nodes,
            ttl: args.ttl.unwrap_or(if maker.target.here { LIFE_HERE } else { LIFE_ELSEWHERE }),
        })
        .await?;
    let grant = Grant::new(hub, asked, &made);
    grants.write(agent.id, &grant).map_err(|error| desk::refused(&error))?;
    if let Some(known) = known {
        revoke(&known, maker).await;
    }
    Ok(grant)
}

/// Whether the hub takes it.
async fn is_good(grant: &Grant, invocation: &Invocation<'_>) -> bool {
    let asked = async {
        let hub = Hub::new(invocation.target_of(grant)?)?;
        hub.get(&["tokens", "self"], &[]).await
    };
    asked.await.is_ok()
}

/// Takes back what an agent was given that has no connection.
pub(super) async fn withdraw_unused(agent: &Agent, maker: &Maker, desk: &Desk) {
    let connected =
        desk.keeper.bridge().ledger().map_or(true, |ledger| {
            ledger.connections.values().any(|connection| connection.agent == agent.id)
        });
    if !connected && let Ok(Some(grant)) = desk.keeper.grants().take(agent.id) {
        revoke(&grant, maker).await;
    }
}

/// What cannot be revoked ends by itself soon.
async fn revoke(grant: &Grant, maker: &Maker) {
    for token in &grant.tokens {
        if let Err(error) = maker.revoke(*token).await {
            tracing::debug!(%error, "an old token of an agent was not revoked");
        }
    }
}

pub(super) fn told(grant: &Grant) -> Value {
    json!({
        "kind": grant.asked.kind,
        "name": grant.asked.name,
        "scopes": grant.scopes,
        "profile": grant.asked.profile,
        "node": grant.asked.node,
        "expires_at": grant.expires_at,
        "renew_until": grant.renew_until,
    })
}

/// What it may do, and for how long.
pub(super) fn in_words(grant: &Grant, out: &Output) -> String {
    let (nodes, calls): (Vec<&String>, Vec<&String>) =
        grant.scopes.iter().partition(|scope| scope.starts_with("node:"));
    let calls = match calls.as_slice() {
        [one] if *one == "call:*" => "may call every tool".to_owned(),
        calls => calls.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", "),
    };
    let profile = grant.asked.profile.as_ref().map(|id| format!(" of the profile {id}")).unwrap_or_default();
    let machines = match nodes.as_slice() {
        [] => "no machine (--node NAME lets it use one)".to_owned(),
        nodes => nodes.iter().map(|scope| scope.trim_start_matches("node:")).collect::<Vec<_>>().join(", "),
    };
    let until = match grant.renew_until {
        Some(_) => format!("renewed by its proxy until {}", out.at(grant.good_until())),
        None => format!("good until {}", out.at(grant.expires_at)),
    };
    format!("{calls}{profile}; {machines}; {until}")
}
