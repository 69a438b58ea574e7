//! The access of one connection to an account.
//!
//! An account follows the current file of its server, but a connection may outlive a change of the file. Each
//! connection therefore carries the terms that it was made under, and receives only tokens that were granted
//! under the same terms: a token for one URL is never sent to another.

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
pub(crate) struct AccountAccess {
    account: Arc<Account>,
    /// The terms that the connection was made under.
    binding: Arc<str>,
}

/// Whether a request can be sent immediately.
pub(crate) enum BearerStatus {
    /// It can, with this token or without any.
    Ready(Option<Bearer>),
    /// The token must be renewed first.
    NeedsRenewal,
}

/// The `Authorization` header of a request.
#[derive(Clone)]
pub(crate) struct Bearer {
    pub(crate) header: HeaderValue,
    generation: u64,
}

impl Account {
    /// The access of a connection made from this configuration.
    pub(crate) fn access(self: &Arc<Self>, http: &HttpConfig) -> Result<AccountAccess, ClientError> {
        Ok(AccountAccess { account: self.clone(), binding: Terms::of(http)?.binding.into() })
    }
}

impl AccountAccess {
    /// The token that is available without waiting. Every HTTP request to any server calls this.
    pub(crate) fn bearer_status(&self) -> BearerStatus {
        let state = self.account.state.load();
        match &state.grant {
            None if !state.uses_client_credentials() => BearerStatus::Ready(None),
            _ if !state.is_for(&self.binding) => BearerStatus::Ready(None),
            Some(grant) if !grant.is_due(self.account.context.clock.now()) => {
                BearerStatus::Ready(Some(state.bearer(grant)))
            }
            Some(_) | None => BearerStatus::NeedsRenewal,
        }
    }

    /// Like [`Self::bearer_status`], but waits for a renewal if needed. None: there is no token, and the
    /// server may not require one.
    pub(crate) async fn bearer(&self) -> Result<Option<Bearer>, ClientError> {
        let state = self.account.state.load_full();
        if !state.is_for(&self.binding) {
            return Ok(None);
        }
        let Some(grant) = &state.grant else {
            return if state.uses_client_credentials() { self.renew(&state, false).await } else { Ok(None) };
        };
        let renewable = state.can_renew(grant);
        match grant.has_expired(self.account.context.clock.now()) {
            true if renewable => self.renew(&state, false).await,
            // The server decides whether the token has expired.
            true => Ok(Some(state.bearer(grant))),
            false => {
                if renewable {
                    self.account.renew_soon(state.generation);
                }
                Ok(Some(state.bearer(grant)))
            }
        }
    }

    /// The token to retry with after the server rejected one. None: no other token would help now.
    pub(crate) async fn renewed(&self, refused: Option<&Bearer>) -> Result<Option<Bearer>, ClientError> {
        let state = self.account.state.load_full();
        if !state.is_for(&self.binding) {
            return Ok(None);
        }
        let context = &self.account.context;
        let shown = refused.map(|bearer| bearer.generation);
        match &state.grant {
            // Another request has already renewed it.
            Some(grant) if shown != Some(state.generation) => Ok(Some(state.bearer(grant))),
            Some(grant)
                if state.can_renew(grant)
                    && grant.renewal_may_help(context.clock.now(), context.timing.renew_again) =>
            {
                self.renew(&state, true).await
            }
            Some(_) | None => Ok(None),
        }
    }

    async fn renew(&self, state: &AccountState, refused: bool) -> Result<Option<Bearer>, ClientError> {
        self.account.renew(state.generation, refused).await?;
        // The file may have changed meanwhile.
        let state = self.account.state.load();
        let grant = state.grant.as_ref().filter(|_| state.is_for(&self.binding));
        Ok(grant.map(|grant| state.bearer(grant)))
    }

    /// Whether the server rejected the token; a token that was accepted is marked as such.
    pub(crate) fn is_refused(&self, reply: &Reply, shown: Option<&Bearer>) -> bool {
        if !reply.is_from_home() {
            return false;
        }
        if reply.status() == StatusCode::UNAUTHORIZED {
            return true;
        }
        let Some(shown) = shown else { return false };
        let state = self.account.state.load();
        if let (true, Some(grant)) = (shown.generation == state.generation, &state.grant) {
            grant.mark_accepted();
        }
        false
    }

    /// The error for a rejection that a login may resolve; none for any other response.
    pub(crate) fn explain(
        &self,
        origin: &str,
        status: StatusCode,
        challenge: &Challenge,
    ) -> Option<ClientError> {
        let state = self.account.state.load();
        let terms = state.terms.as_ref()?;
        let server = &self.account.server;
        if status == StatusCode::FORBIDDEN && state.grant.is_some() {
            let lacking = challenge.error.as_deref() == Some("insufficient_scope");
            let scope = challenge.scope.as_deref().filter(|_| lacking).map(quoted)?;
            return Some(ClientError::Protocol(format!(
                "{origin} denied this ({status}): the hub's token lacks the scope {scope:?}. Add the scopes that are needed \
                 to `auth.scopes` in the server's file and run `plexus upstream login {server}`"
            )));
        }
        if status != StatusCode::UNAUTHORIZED {
            return None;
        }
        if !state.is_for(&self.binding) {
            return Some(ClientError::Unreachable(format!(
                "the file of {server} has changed since this connection to {origin} was made"
            )));
        }
        // A renewal may resolve the rejection, so it counts as transient and nobody has to log in.
        if terms.uses_client_credentials() {
            let issuer = state.grant.as_ref().map_or("nobody", |grant| &grant.source.issuer);
            return Some(ClientError::Unreachable(format!(
                "{origin} rejected ({status}) the token that {} issued to the hub: the hub requests a new one later; \
                 if that does not help, check `auth.scopes` and `auth.client_id` in the server's file",
                quoted(issuer)
            )));
        }
        if state.grant.as_ref().is_some_and(|grant| state.can_renew(grant)) {
            return Some(ClientError::Unreachable(format!(
                "{origin} rejected ({status}) the hub's token: the hub requests a new one later; if that does not help, \
                 run `plexus upstream login {server}`"
            )));
        }
        let concerned = terms.is_explicit || challenge.resource_metadata.is_some();
        if !concerned && state.grant.is_none() && state.why.is_none() {
            return None;
        }
        let why = match (&state.why, &state.grant) {
            (Some(why), _) => format!(" ({why})"),
            (None, Some(_)) => " (it rejected the hub's token)".to_owned(),
            (None, None) => String::new(),
        };
        Some(ClientError::NeedsLogin(self.account.wants_login(&format!("{origin} requires a login{why}"))))
    }
}

impl AccountState {
    fn bearer(&self, grant: &Grant) -> Bearer {
        Bearer { header: grant.header.clone(), generation: self.generation }
    }
}
