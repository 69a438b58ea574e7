//! The token of a connected agent: least privilege, short-lived, renewed by the agent's proxy.

use plexus_bridge::Grant;
use plexus_bridge::agents::Agent;
use plexus_proto::{ErrorCode, TokenId};
use serde_json::{Value, json};

use super::ConnectArgs;
use super::local_agents::{self, LocalAgents};
use crate::client::Hub;
use crate::commands::Invocation;
use crate::commands::run::token_issuer::{AgentTokenRequest, TokenIssuer, has_code};
use crate::output::Output;
use crate::target::Credential;

/// Default lifetimes in seconds: on the hub's machine, where the proxy can create another token, and elsewhere, where it
/// cannot and the machine may be off for a while.
const TTL_LOCAL: u64 = 24 * 60 * 60;
const TTL_REMOTE: u64 = 14 * 24 * 60 * 60;
/// Prefix of the scopes of machines.
const NODE_SCOPE: &str = "node:";

/// The URL of the hub, as grants and connections store it; none for the hub on this machine.
pub(super) fn hub_of(issuer: &TokenIssuer, invocation: &Invocation<'_>) -> Option<String> {
    let here = issuer.target.is_local && !invocation.names_hub();
    (!here).then(|| issuer.hub.url().to_owned())
}

/// Returns the agent's grant if it is still valid and no token option was given, otherwise a new one. Options that were not
/// given stay as they were.
pub(super) async fn ensure(
    agent: &Agent,
    args: &ConnectArgs,
    issuer: &TokenIssuer,
    local_agents: &LocalAgents,
    invocation: &Invocation<'_>,
) -> anyhow::Result<Grant> {
    let grants = local_agents.keeper.grants();
    // The proxy cannot use an unreadable grant either, so it is replaced.
    let known = grants.read(agent.id).unwrap_or_default();
    let hub = hub_of(issuer, invocation);
    let before = known.as_ref().filter(|known| known.hub == hub);
    if let Some(before) = before
        && !args.has_token_options()
        && is_valid(before, invocation).await
    {
        return Ok(before.clone());
    }
    let requested = before.map(|before| &before.asked);
    let previous_scopes = |of_nodes: bool| -> Vec<String> {
        let scopes = requested.into_iter().flat_map(|requested| &requested.scopes);
        scopes.filter(|scope| scope.starts_with(NODE_SCOPE) == of_nodes).cloned().collect()
    };
    let scopes = if args.scopes.is_empty() { previous_scopes(false) } else { args.scopes.clone() };
    let mut nodes = args.nodes.clone();
    if nodes.is_empty() {
        nodes = previous_scopes(true)
            .iter()
            .map(|scope| scope.trim_start_matches(NODE_SCOPE).to_owned())
            .collect();
        // The first node is the default for calls.
        let first = requested.and_then(|requested| requested.node.clone());
        nodes.sort_by_key(|node| Some(node) != first.as_ref());
    }
    let ttl = if issuer.target.is_local { TTL_LOCAL } else { TTL_REMOTE };
    let request = AgentTokenRequest {
        agent: agent.id,
        profile: args.profile.as_deref().or_else(|| requested?.profile.as_deref()),
        scopes: &scopes,
        nodes: &nodes,
        ttl: args.ttl.or_else(|| requested?.ttl_seconds).unwrap_or(ttl),
    };
    let (requested, made) = issuer.create_agent_token(&request).await?;
    let by_admin = matches!(issuer.target.credential, Credential::Local(_));
    let grant = Grant::new(hub, by_admin, requested, &made);
    grants.write(agent.id, &grant).map_err(|error| local_agents::failure(&error))?;
    if let Some(known) = known {
        revoke(&known, agent.id, invocation).await;
    }
    Ok(grant)
}

/// Whether the hub accepts the token.
async fn is_valid(grant: &Grant, invocation: &Invocation<'_>) -> bool {
    let response = async {
        let hub = Hub::new(invocation.grant_target(grant)?)?;
        hub.get(&["tokens", "self"], &[]).await
    };
    response.await.is_ok()
}

/// Revokes the grant of an agent that is not connected.
pub(super) async fn revoke_unused(agent: &Agent, local_agents: &LocalAgents, invocation: &Invocation<'_>) {
    let connected =
        local_agents.keeper.bridge().ledger().map_or(true, |ledger| {
            ledger.connections.values().any(|connection| connection.agent == agent.id)
        });
    if !connected && let Ok(Some(grant)) = local_agents.keeper.grants().remove(agent.id) {
        revoke(&grant, agent.id, invocation).await;
    }
}

/// Revokes the tokens of a grant at the hub that created them, with the user's token or that of the agent. Reports a token that
/// could not be revoked and is valid until it expires.
pub(crate) async fn revoke(grant: &Grant, agent: &str, invocation: &Invocation<'_>) {
    let mut hubs: Vec<Hub> = Vec::new();
    if let Ok(target) = invocation.target()
        && invocation.grant_target(grant).is_ok_and(|own| own.url == target.url)
    {
        hubs.extend(Hub::new(target).ok());
    }
    hubs.extend(invocation.grant_target(grant).ok().and_then(|own| Hub::new(own).ok()));
    let mut left = false;
    for token in &grant.tokens {
        left |= !revoke_token(&hubs, *token).await;
    }
    if left && grant.expires_at > invocation.out.now() {
        let until = invocation.out.at(grant.expires_at);
        invocation
            .out
            .note(&format!("Could not revoke the token of {agent}; it expires by itself, {until}."));
    }
}

async fn revoke_token(hubs: &[Hub], token: TokenId) -> bool {
    for hub in hubs {
        match hub.delete(&["tokens", &token.to_string()]).await {
            Ok(_) => return true,
            // It is already gone.
            Err(error) if has_code(&error, ErrorCode::NotFound) => return true,
            Err(error) => tracing::debug!(%error, "cannot revoke the token of an agent"),
        }
    }
    false
}

pub(super) fn to_json(grant: &Grant) -> Value {
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

/// What the token allows, and until when.
pub(super) fn describe(grant: &Grant, out: &Output) -> String {
    let (nodes, calls): (Vec<&String>, Vec<&String>) =
        grant.scopes.iter().partition(|scope| scope.starts_with(NODE_SCOPE));
    let calls = match calls.as_slice() {
        [one] if *one == "call:*" => "may call every tool".to_owned(),
        calls => calls.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", "),
    };
    let profile = grant.asked.profile.as_ref().map(|id| format!(" of the profile {id}")).unwrap_or_default();
    let machines = match nodes.as_slice() {
        [] => "no machine (--node NAME allows one)".to_owned(),
        nodes => {
            let nodes: Vec<&str> = nodes.iter().map(|scope| scope.trim_start_matches(NODE_SCOPE)).collect();
            format!("may use {}", nodes.join(", "))
        }
    };
    let until = match grant.renew_until {
        Some(_) => format!("renewed by its proxy until {}", out.at(grant.access_until())),
        None => format!("valid until {}", out.at(grant.expires_at)),
    };
    format!("{calls}{profile}; {machines}; {until}")
}
