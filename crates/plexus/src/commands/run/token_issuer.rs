//! Creates and revokes tokens of agents with the user's token. A token has at most the rights of the user's token.

use std::time::Duration;

use plexus_kit::Secret;
use plexus_proto::api::{CreateTokenParams, CreatedToken, Token, TokenDetail, TokenKind};
use plexus_proto::{ErrorCode, Timestamp, TokenId};

use crate::client::Hub;
use crate::commands::Invocation;
use crate::failure::Failure;
use crate::target::Target;

/// Lifetime of a token that the agent itself holds, which cannot be replaced while the agent runs.
const DIRECT_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// Lifetime of a token that a proxy renews.
const PROXY_TTL: Duration = Duration::from_secs(60 * 60);
/// Allowed clock skew between the hub and this machine, in seconds.
const CLOCK_SKEW: i64 = 60;
/// How long the token of a run can be renewed.
const RUN_RENEWABLE_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long the token of a connected agent can be renewed. On the hub's machine, the proxy then creates another token.
const AGENT_RENEWABLE_FOR: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Lifetime of a token that only reports events of a run.
const REPORTING_TTL: Duration = Duration::from_secs(60);

/// Creates and revokes tokens with the user's credential.
pub(crate) struct TokenIssuer {
    pub(crate) target: Target,
    pub(crate) hub: Hub,
}

/// The token that a run needs.
pub(crate) struct RunTokenRequest<'a> {
    pub(crate) agent: &'a str,
    pub(crate) profile: Option<&'a str>,
    pub(crate) node: Option<&'a str>,
    /// Whether a proxy renews it.
    pub(crate) renewed: bool,
}

/// The token that a connected agent needs.
pub(crate) struct AgentTokenRequest<'a> {
    pub(crate) agent: &'a str,
    pub(crate) profile: Option<&'a str>,
    /// If empty, all tools that the user can call.
    pub(crate) scopes: &'a [String],
    /// Machines that the agent may use. The first is the default for calls.
    pub(crate) nodes: &'a [String],
    pub(crate) ttl: u64,
}

/// A new token.
pub(crate) struct AgentToken {
    pub(crate) secret: Secret,
    pub(crate) jti: TokenId,
    pub(crate) name: String,
    pub(crate) profile: Option<String>,
}

impl TokenIssuer {
    pub(crate) fn new(invocation: &Invocation<'_>) -> anyhow::Result<Self> {
        let target = invocation.target()?;
        Ok(Self { hub: Hub::new(target.clone())?, target })
    }

    /// A client of the hub that uses this token.
    pub(crate) fn hub_with(&self, token: &Secret) -> anyhow::Result<Hub> {
        Hub::new(self.target.with_token(token.clone()))
    }

    /// Creates the token of a run. Its name has the names of the user's token and of the agent, but not of the run.
    /// Sessions and idempotency keys belong to the name, so a resumed conversation finds its session, and the hub
    /// recognizes a write that an earlier run tried to deliver.
    pub(crate) async fn create_run_token(&self, request: &RunTokenRequest<'_>) -> anyhow::Result<AgentToken> {
        let own = self.own().await?;
        let mut scopes = call_scopes(&own);
        scopes.extend(request.node.map(|node| format!("node:{node}")));
        let ttl = if request.renewed { PROXY_TTL } else { DIRECT_TTL };
        self.create(&CreateTokenParams {
            kind: TokenKind::Session,
            name: format!("{}/{}", own.name, request.agent),
            profile: request.profile.map(str::to_owned),
            node: request.node.map(str::to_owned),
            scopes,
            ttl_seconds: ttl_within(&own, ttl.as_secs()),
            renew_seconds: request.renewed.then(|| renewal_within(&own, RUN_RENEWABLE_FOR.as_secs())),
        })
        .await
    }

    /// Creates the token of a connected agent, which its proxy renews. It can only call tools and use named machines.
    pub(crate) async fn create_agent_token(
        &self,
        request: &AgentTokenRequest<'_>,
    ) -> anyhow::Result<(CreateTokenParams, CreatedToken)> {
        let own = self.own().await?;
        let mut scopes = if request.scopes.is_empty() { call_scopes(&own) } else { request.scopes.to_vec() };
        scopes.extend(request.nodes.iter().map(|node| format!("node:{node}")));
        let name = match own.kind {
            TokenKind::Admin => request.agent.to_owned(),
            _ => format!("{}/{}", own.name, request.agent),
        };
        let params = CreateTokenParams {
            kind: TokenKind::Agent,
            name,
            profile: request.profile.map(str::to_owned),
            node: request.nodes.first().cloned(),
            scopes,
            ttl_seconds: ttl_within(&own, request.ttl),
            renew_seconds: Some(renewal_within(&own, AGENT_RENEWABLE_FOR.as_secs())),
        };
        let created = self.hub.post(&["tokens"], &params, &[]).await?.decode()?;
        Ok((params, created))
    }

    /// The user's own token.
    async fn own(&self) -> anyhow::Result<Token> {
        let own: TokenDetail = self.hub.get(&["tokens", "self"], &[]).await?.decode()?;
        Ok(own.token)
    }

    /// Creates a short-lived token of the given name, to report events with.
    pub(crate) async fn create_reporting_token(&self, name: &str) -> anyhow::Result<AgentToken> {
        let own = self.own().await?;
        let left = own.expires_at.as_second() - Timestamp::now().as_second();
        let has_time = left > REPORTING_TTL.as_secs().cast_signed() + CLOCK_SKEW;
        self.create(&CreateTokenParams {
            kind: TokenKind::Session,
            name: name.to_owned(),
            profile: None,
            node: None,
            scopes: call_scopes(&own),
            // Without a lifetime, the hub limits it to what the user's token has left.
            ttl_seconds: Some(REPORTING_TTL.as_secs()).filter(|_| has_time),
            renew_seconds: None,
        })
        .await
    }

    async fn create(&self, params: &CreateTokenParams) -> anyhow::Result<AgentToken> {
        let created: CreatedToken = self.hub.post(&["tokens"], params, &[]).await?.decode()?;
        let CreatedToken { token, jti, name, profile, .. } = created;
        Ok(AgentToken { secret: Secret::from(token), jti, name, profile })
    }

    /// Revokes a token and all tokens created from it. A token that does not exist is not an error.
    pub(crate) async fn revoke(&self, token: TokenId) -> anyhow::Result<()> {
        match self.hub.delete(&["tokens", &token.to_string()]).await {
            Err(error) if has_code(&error, ErrorCode::NotFound) => Ok(()),
            response => response.map(drop),
        }
    }
}

/// Limits a lifetime to that of the user's token, minus the clock skew. An admin token does not limit it.
fn within(own: &Token, seconds: u64, end: Timestamp) -> u64 {
    let left = end.as_second() - Timestamp::now().as_second() - CLOCK_SKEW;
    match own.kind {
        TokenKind::Admin => seconds,
        _ => seconds.min(u64::try_from(left).unwrap_or_default()),
    }
}

/// `None` if the user's token is about to expire; the hub then gives the rest of its lifetime.
fn ttl_within(own: &Token, seconds: u64) -> Option<u64> {
    Some(within(own, seconds, own.expires_at)).filter(|ttl| *ttl > 0)
}

fn renewal_within(own: &Token, seconds: u64) -> u64 {
    within(own, seconds, own.renew_until.map_or(own.expires_at, |until| until.max(own.expires_at)))
}

/// The scopes of the token for calling tools.
fn call_scopes(own: &Token) -> Vec<String> {
    let all = ["admin", "*", "call:*"];
    match own.scopes.iter().any(|scope| all.contains(&scope.as_str())) {
        true => vec!["call:*".to_owned()],
        false => own.scopes.iter().filter(|scope| scope.starts_with("call:")).cloned().collect(),
    }
}

/// Whether the hub refused with this code.
pub(crate) fn has_code(error: &anyhow::Error, code: ErrorCode) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.code == Some(code))
}
