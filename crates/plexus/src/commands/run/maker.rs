//! Tokens of agents: made from the one of whoever starts or connects them, a part of that, and taken back at the end.

use std::time::Duration;

use plexus_kit::Secret;
use plexus_proto::api::{CreateTokenParams, CreatedToken, Token, TokenDetail, TokenKind};
use plexus_proto::{ErrorCode, Timestamp, TokenId};

use crate::client::Hub;
use crate::commands::Invocation;
use crate::failure::Failure;
use crate::target::Target;

/// An agent that holds its token itself cannot be given another.
const LIFE_DIRECT: Duration = Duration::from_secs(24 * 60 * 60);
/// A proxy renews its own.
const LIFE_IN_PROXY: Duration = Duration::from_secs(60 * 60);
/// By how many seconds the clocks of two machines may differ.
const SLACK: i64 = 60;
const RENEWED_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// A connected agent is let in for so long without a person; on the machine of the hub it is given another token then.
const AGENT_RENEWED_FOR: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// One that only tells the hub what became of a run.
const LIFE_OF_HELPER: Duration = Duration::from_secs(60);

/// Whoever starts a run, at the hub.
pub(crate) struct Maker {
    pub(crate) target: Target,
    pub(crate) hub: Hub,
}

/// What a run is to have.
pub(crate) struct Wish<'a> {
    pub(crate) agent: &'a str,
    pub(crate) profile: Option<&'a str>,
    pub(crate) node: Option<&'a str>,
    /// Whether somebody renews it.
    pub(crate) renewed: bool,
}

/// What a connected agent is to have.
pub(crate) struct AgentWish<'a> {
    pub(crate) agent: &'a str,
    pub(crate) profile: Option<&'a str>,
    /// Empty: the tools that whoever makes it may call.
    pub(crate) scopes: &'a [String],
    /// Machines that it may use; calls that name none go to the first.
    pub(crate) nodes: &'a [String],
    pub(crate) ttl: u64,
}

pub(crate) struct Made {
    pub(crate) token: Secret,
    pub(crate) jti: TokenId,
    pub(crate) name: String,
    pub(crate) profile: Option<String>,
}

impl Maker {
    pub(crate) fn new(invocation: &Invocation<'_>) -> anyhow::Result<Self> {
        let target = invocation.target()?;
        Ok(Self { hub: Hub::new(target.clone())?, target })
    }

    /// The hub for whoever holds this token.
    pub(crate) fn hub_of(&self, token: &Secret) -> anyhow::Result<Hub> {
        Hub::new(self.target.with_token(token.clone()))
    }

    /// A token for a run. Its name is that of its maker and of the agent, and not of the run: sessions and keys of calls
    /// belong to the name, so a conversation that is gone on with finds its own again, and what an earlier run could not
    /// deliver is known when it comes twice.
    pub(crate) async fn make(&self, wish: &Wish<'_>) -> anyhow::Result<Made> {
        let own = self.own().await?;
        let mut scopes = calls_of(&own);
        scopes.extend(wish.node.map(|node| format!("node:{node}")));
        let life = if wish.renewed { LIFE_IN_PROXY } else { LIFE_DIRECT };
        self.create(&CreateTokenParams {
            kind: TokenKind::Session,
            name: format!("{}/{}", own.name, wish.agent),
            profile: wish.profile.map(str::to_owned),
            node: wish.node.map(str::to_owned),
            scopes,
            ttl_seconds: life_within(&own, life.as_secs()),
            renew_seconds: wish.renewed.then(|| renewal_within(&own, RENEWED_FOR.as_secs())),
        })
        .await
    }

    /// A token for an agent that is connected, whose proxy renews it. It may call tools and use the machines that were named, and
    /// nothing else.
    pub(crate) async fn make_for_agent(
        &self,
        wish: &AgentWish<'_>,
    ) -> anyhow::Result<(CreateTokenParams, CreatedToken)> {
        let own = self.own().await?;
        let mut scopes = if wish.scopes.is_empty() { calls_of(&own) } else { wish.scopes.to_vec() };
        scopes.extend(wish.nodes.iter().map(|node| format!("node:{node}")));
        let name = match own.kind {
            TokenKind::Admin => wish.agent.to_owned(),
            _ => format!("{}/{}", own.name, wish.agent),
        };
        let params = CreateTokenParams {
            kind: TokenKind::Agent,
            name,
            profile: wish.profile.map(str::to_owned),
            node: wish.nodes.first().cloned(),
            scopes,
            ttl_seconds: life_within(&own, wish.ttl),
            renew_seconds: Some(renewal_within(&own, AGENT_RENEWED_FOR.as_secs())),
        };
        let made = self.hub.post(&["tokens"], &params, &[]).await?.decode()?;
        Ok((params, made))
    }

    async fn own(&self) -> anyhow::Result<Token> {
        let own: TokenDetail = self.hub.get(&["tokens", "self"], &[]).await?.decode()?;
        Ok(own.token)
    }

    /// A token of the same name for a minute.
    pub(crate) async fn helper(&self, name: &str) -> anyhow::Result<Made> {
        let own = self.own().await?;
        let left = own.expires_at.as_second() - Timestamp::now().as_second();
        let (scopes, lasts) = (calls_of(&own), left > LIFE_OF_HELPER.as_secs().cast_signed() + SLACK);
        self.create(&CreateTokenParams {
            kind: TokenKind::Session,
            name: name.to_owned(),
            profile: None,
            node: None,
            scopes,
            // One that has less time left itself gives what it has.
            ttl_seconds: Some(LIFE_OF_HELPER.as_secs()).filter(|_| lasts),
            renew_seconds: None,
        })
        .await
    }

    async fn create(&self, params: &CreateTokenParams) -> anyhow::Result<Made> {
        let made: CreatedToken = self.hub.post(&["tokens"], params, &[]).await?.decode()?;
        Ok(Made { token: Secret::from(made.token), jti: made.jti, name: made.name, profile: made.profile })
    }

    /// Ends a token and all that came from it.
    pub(crate) async fn revoke(&self, token: TokenId) -> anyhow::Result<()> {
        match self.hub.delete(&["tokens", &token.to_string()]).await {
            // It is gone, which is what was wanted.
            Err(error) if is(&error, ErrorCode::NotFound) => Ok(()),
            done => done.map(drop),
        }
    }
}

/// Nothing outlives its maker, but for what an admin makes. The hub's clock is another one, and so a little is left.
fn within(own: &Token, seconds: u64, end: Timestamp) -> u64 {
    let left = end.as_second() - Timestamp::now().as_second() - SLACK;
    match own.kind {
        TokenKind::Admin => seconds,
        _ => seconds.min(u64::try_from(left).unwrap_or_default()),
    }
}

/// Without a wish the hub gives what it can, which is little here.
fn life_within(own: &Token, seconds: u64) -> Option<u64> {
    Some(within(own, seconds, own.expires_at)).filter(|life| *life > 0)
}

fn renewal_within(own: &Token, seconds: u64) -> u64 {
    within(own, seconds, own.renew_until.map_or(own.expires_at, |until| until.max(own.expires_at)))
}

/// Which tools the token may call, and nothing else that it may do.
fn calls_of(own: &Token) -> Vec<String> {
    let all = ["admin", "*", "call:*"];
    match own.scopes.iter().any(|scope| all.contains(&scope.as_str())) {
        true => vec!["call:*".to_owned()],
        false => own.scopes.iter().filter(|scope| scope.starts_with("call:")).cloned().collect(),
    }
}

/// Whether the hub refused with this code.
pub(crate) fn is(error: &anyhow::Error, code: ErrorCode) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.code == Some(code))
}
