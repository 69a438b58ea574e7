//! The token of a connected agent: no more than it needs, for a short time, renewed by its proxy.

use plexus_bridge::Grant;
use plexus_bridge::agents::Agent;
use plexus_proto::{ErrorCode, TokenId};
use serde_json::{Value, json};

use super::ConnectArgs;
use super::desk::{self, Desk};
use crate::client::Hub;
use crate::commands::Invocation;
use crate::commands::run::maker::{AgentWish, Maker, is};
use crate::output::Output;
use crate::target::Credential;

/// Where the proxy can have another one made, and where it cannot, in seconds: a machine may be off for a while.
const LIFE_HERE: u64 = 24 * 60 * 60;
const LIFE_ELSEWHERE: u64 = 14 * 24 * 60 * 60;
/// What scopes of machines begin with.
const NODE: &str = "node:";

/// The hub that a command is about, as grants and connections name it; none: the one of this machine.
pub(super) fn hub_of(maker: &Maker, invocation: &Invocation<'_>) -> Option<String> {
    let here = maker.target.here && !invocation.names_hub();
    (!here).then(|| maker.hub.url().to_owned())
}

/// The grant of the agent: the one that it has, if it is still good and nothing else was asked for, or a new one. What is not
/// asked for is as it was.
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
    let hub = hub_of(maker, invocation);
    let before = known.as_ref().filter(|known| known.hub == hub);
    if let Some(before) = before
        && !args.wishes_token()
        && is_good(before, invocation).await
    {
        return Ok(before.clone());
    }
    let asked = before.map(|before| &before.asked);
    let was = |of_nodes: bool| -> Vec<String> {
        let scopes = asked.into_iter().flat_map(|asked| &asked.scopes);
        scopes.filter(|scope| scope.starts_with(NODE) == of_nodes).cloned().collect()
    };
    let scopes = if args.scopes.is_empty() { was(false) } else { args.scopes.clone() };
    let mut nodes = args.nodes.clone();
    if nodes.is_empty() {
        nodes = was(true).iter().map(|scope| scope.trim_start_matches(NODE).to_owned()).collect();
        // Calls that name none go to the first.
        let first = asked.and_then(|asked| asked.node.clone());
        nodes.sort_by_key(|node| Some(node) != first.as_ref());
    }
    let life = if maker.target.here { LIFE_HERE } else { LIFE_ELSEWHERE };
    let wish = AgentWish {
        agent: agent.id,
        profile: args.profile.as_deref().or_else(|| asked?.profile.as_deref()),
        scopes: &scopes,
        nodes: &nodes,
        ttl: args.ttl.or_else(|| asked?.ttl_seconds).unwrap_or(life),
    };
    let (asked, made) = maker.make_for_agent(&wish).await?;
    let by_admin = matches!(maker.target.credential, Credential::Local(_));
    let grant = Grant::new(hub, by_admin, asked, &made);
    grants.write(agent.id, &grant).map_err(|error| desk::refused(&error))?;
    if let Some(known) = known {
        revoke(&known, agent.id, invocation).await;
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
pub(super) async fn withdraw_unused(agent: &Agent, desk: &Desk, invocation: &Invocation<'_>) {
    let connected =
        desk.keeper.bridge().ledger().map_or(true, |ledger| {
            ledger.connections.values().any(|connection| connection.agent == agent.id)
        });
    if !connected && let Ok(Some(grant)) = desk.keeper.grants().take(agent.id) {
        revoke(&grant, agent.id, invocation).await;
    }
}

/// Ends the tokens of a grant at the hub that has made them: by whoever runs the command, or as the agent itself. What cannot be
/// ended ends by itself, and that is said.
pub(crate) async fn revoke(grant: &Grant, agent: &str, invocation: &Invocation<'_>) {
    let mut hubs: Vec<Hub> = Vec::new();
    if let Ok(target) = invocation.target()
        && invocation.target_of(grant).is_ok_and(|own| own.url == target.url)
    {
        hubs.extend(Hub::new(target).ok());
    }
    hubs.extend(invocation.target_of(grant).ok().and_then(|own| Hub::new(own).ok()));
    let mut left = false;
    for token in &grant.tokens {
        left |= !ended(&hubs, *token).await;
    }
    if left && grant.expires_at > invocation.out.now() {
        let until = invocation.out.at(grant.expires_at);
        invocation.out.note(&format!(
            "The hub could not be told to revoke the token of {agent}: it ends by itself, {until}."
        ));
    }
}

async fn ended(hubs: &[Hub], token: TokenId) -> bool {
    for hub in hubs {
        match hub.delete(&["tokens", &token.to_string()]).await {
            Ok(_) => return true,
            // It is gone, which is what was wanted.
            Err(error) if is(&error, ErrorCode::NotFound) => return true,
            Err(error) => tracing::debug!(%error, "a token of an agent was not revoked"),
        }
    }
    false
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
        grant.scopes.iter().partition(|scope| scope.starts_with(NODE));
    let calls = match calls.as_slice() {
        [one] if *one == "call:*" => "may call every tool".to_owned(),
        calls => calls.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", "),
    };
    let profile = grant.asked.profile.as_ref().map(|id| format!(" of the profile {id}")).unwrap_or_default();
    let machines = match nodes.as_slice() {
        [] => "no machine (--node NAME lets it use one)".to_owned(),
        nodes => {
            let nodes: Vec<&str> = nodes.iter().map(|scope| scope.trim_start_matches(NODE)).collect();
            format!("may use {}", nodes.join(", "))
        }
    };
    let until = match grant.renew_until {
        Some(_) => format!("renewed by its proxy until {}", out.at(grant.good_until())),
        None => format!("good until {}", out.at(grant.expires_at)),
    };
    format!("{calls}{profile}; {machines}; {until}")
}
