//! What one connection shows of an account.
//!
//! An account goes by what the file of its server says now; a connection may outlive a change of it. So each asks with the
//! terms that it was made by, and is given nothing that was given under others: a token for one address never gets to
//! another.

use std::sync::Arc;

use http::StatusCode;
use http::header::HeaderValue;
use plexus_mcp::http_client::Reply;

use super::{Account, AccountState};
use crate::client::ClientError;
use crate::config::HttpConfig;
use crate::oauth::challenge::Challenge;
use crate::oauth::grant::Grant;
use crate::oauth::quoted;
use crate::oauth::terms::Terms;

#[derive(Clone)]
pub(crate) struct Pass {
    account: Arc<Account>,
    /// The terms that the connection was made by.
    binding: Arc<str>,
}

/// Whether a request can be sent at once.
pub(crate) enum AtHand {
    /// It can, with this or with nothing to show.
    Now(Option<Bearer>),
    /// There is something to be done about it first.
    Later,
}

/// What a request shows.
#[derive(Clone)]
pub(crate) struct Bearer {
    pub(crate) header: HeaderValue,
    generation: u64,
}

impl Account {
    /// For a connection that is made by this file.
    pub(crate) fn pass(self: &Arc<Self>, http: &HttpConfig) -> Result<Pass, ClientError> {
        Ok(Pass { account: self.clone(), binding: Terms::of(http)?.binding.into() })
    }
}

impl Pass {
    /// What a request can show at once. Every request to any server over HTTP comes by here.
    pub(crate) fn at_hand(&self) -> AtHand {
        let held = self.account.held.load();
        match &held.grant {
            None if !held.by_itself() => AtHand::Now(None),
            _ if !held.is_for(&self.binding) => AtHand::Now(None),
            Some(grant) if !grant.is_due(self.account.around.clock.now()) => {
                AtHand::Now(Some(held.bearer(grant)))
            }
            Some(_) | None => AtHand::Later,
        }
    }

    /// The same, after what has to be waited for. None: there is nothing to show, and the server may not want anything.
    pub(crate) async fn bearer(&self) -> Result<Option<Bearer>, ClientError> {
        let held = self.account.held.load_full();
        if !held.is_for(&self.binding) {
            return Ok(None);
        }
        let Some(grant) = &held.grant else {
            return if held.by_itself() { self.renew(&held, false).await } else { Ok(None) };
        };
        let renewable = held.can_renew(grant);
        match grant.has_expired(self.account.around.clock.now()) {
            true if renewable => self.renew(&held, false).await,
            // Whether it has ended is for the server to say.
            true => Ok(Some(held.bearer(grant))),
            false => {
                if renewable {
                    self.account.renew_soon(held.generation);
                }
                Ok(Some(held.bearer(grant)))
            }
        }
    }

    /// What to show instead of what the server has refused. None: nothing else would help now.
    pub(crate) async fn renewed(&self, refused: Option<&Bearer>) -> Result<Option<Bearer>, ClientError> {
        let held = self.account.held.load_full();
        if !held.is_for(&self.binding) {
            return Ok(None);
        }
        let around = &self.account.around;
        let shown = refused.map(|bearer| bearer.generation);
        match &held.grant {
            // Somebody was faster.
            Some(grant) if shown != Some(held.generation) => Ok(Some(held.bearer(grant))),
            Some(grant)
                if held.can_renew(grant)
                    && grant.may_help_again(around.clock.now(), around.timing.renew_again) =>
            {
                self.renew(&held, true).await
            }
            Some(_) | None => Ok(None),
        }
    }

    async fn renew(&self, held: &AccountState, refused: bool) -> Result<Option<Bearer>, ClientError> {
        self.account.renew(held.generation, refused).await?;
        // The file may have changed meanwhile.
        let held = self.account.held.load();
        let grant = held.grant.as_ref().filter(|_| held.is_for(&self.binding));
        Ok(grant.map(|grant| held.bearer(grant)))
    }

    /// Whether the server has refused what was shown to it; it is remembered of what it has not.
    pub(crate) fn is_refused(&self, reply: &Reply, shown: Option<&Bearer>) -> bool {
        if !reply.is_own() {
            return false;
        }
        if reply.status() == StatusCode::UNAUTHORIZED {
            return true;
        }
        let Some(shown) = shown else { return false };
        let held = self.account.held.load();
        if let (true, Some(grant)) = (shown.generation == held.generation, &held.grant) {
            grant.accept();
        }
        false
    }

    /// What a refusal means where a login may help; none where it is one like any other.
    pub(crate) fn explain(
        &self,
        place: &str,
        status: StatusCode,
        challenge: &Challenge,
    ) -> Option<ClientError> {
        let held = self.account.held.load();
        let terms = held.terms.as_ref()?;
        let server = &self.account.server;
        if status == StatusCode::FORBIDDEN && held.grant.is_some() {
            let lacking = challenge.error.as_deref() == Some("insufficient_scope");
            let scope = challenge.scope.as_deref().filter(|_| lacking).map(quoted)?;
            return Some(ClientError::Protocol(format!(
                "{place} does not allow this ({status}) with the access that the hub has: it needs the scope \
                 {scope:?}. Write what is needed as `auth.scopes` in the server's file, and run `plexus upstream login \
                 {server}`"
            )));
        }
        if status != StatusCode::UNAUTHORIZED {
            return None;
        }
        if !held.is_for(&self.binding) {
            return Some(ClientError::Unreachable(format!(
                "the file of {server} has changed, and this connection to {place} is of before that"
            )));
        }
        // What a refusal means that newer access may help against: it passes, and nobody has to log in.
        if terms.by_itself() {
            let issuer = held.grant.as_ref().map_or("nobody", |grant| &grant.source.issuer);
            return Some(ClientError::Unreachable(format!(
                "{place} does not take ({status}) the access that the hub was given by {}: newer access is asked for \
                 in a while; if that does not help, check `auth.scopes` and `auth.client_id` in the server's file",
                quoted(issuer)
            )));
        }
        if held.grant.as_ref().is_some_and(|grant| held.can_renew(grant)) {
            return Some(ClientError::Unreachable(format!(
                "{place} does not take ({status}) the access that the hub was given: newer access is asked for in a \
                 while; if that does not help, run `plexus upstream login {server}`"
            )));
        }
        let concerned = terms.asked_for || challenge.resource_metadata.is_some();
        if !concerned && held.grant.is_none() && held.why.is_none() {
            return None;
        }
        let why = match (&held.why, &held.grant) {
            (Some(why), _) => format!(" ({why})"),
            (None, Some(_)) => " (it does not take the access that the hub was given)".to_owned(),
            (None, None) => String::new(),
        };
        Some(ClientError::NeedsLogin(self.account.wants_login(&format!("{place} wants a login{why}"))))
    }
}

impl AccountState {
    fn bearer(&self, grant: &Grant) -> Bearer {
        Bearer { header: grant.header.clone(), generation: self.generation }
    }
}
