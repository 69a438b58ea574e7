//! The token of a run: made from the one of whoever starts it, a part of that, and taken back at the end.

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
        Hub::new(self.target.with(token.clone()))
    }

    /// A token for a run. Its name is that of its maker and of the agent, and not of the run: sessions and keys of calls
    /// belong to the name, so a conversation that is gone on with finds its own again, and what an earlier run could not
    /// deliver is known when it comes twice.
    pub(crate) async fn make(&self, wish: &Wish<'_>) -> anyhow::Result<Made> {
        let own = self.own().await?;
        let mut scopes = calls_of(&own);
        scopes.extend(wish.node.map(|node| format!("node:{node}")));
        let now = Timestamp::now().as_second();
        // Nothing outlives its maker, but for what an admin makes. The hub's clock is another one, and so a little is left.
        let within = |life: Duration, end: Timestamp| {
            let left = u64::try_from(end.as_second() - now - SLACK).unwrap_or_default();
            if own.kind == TokenKind::Admin { life.as_secs() } else { life.as_secs().min(left) }
        };
        let renewable = own.renew_until.map_or(own.expires_at, |until| until.max(own.expires_at));
        let life = if wish.renewed { LIFE_IN_PROXY } else { LIFE_DIRECT };
        // Without a wish the hub gives what it can, which is little here.
        let life = Some(within(life, own.expires_at)).filter(|life| *life > 0);
        self.create(&CreateTokenParams {
            kind: TokenKind::Session,
            name: format!("{}/{}", own.name, wish.agent),
            profile: wish.profile.map(str::to_owned),
            node: wish.node.map(str::to_owned),
            scopes,
            ttl_seconds: life,
            renew_seconds: wish.renewed.then(|| within(RENEWED_FOR, renewable)),
        })
        .await
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
