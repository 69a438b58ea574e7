//! Renewal of tokens: one attempt at a time for any number of waiting requests, with retries after a failure.
//!
//! A new grant is written to the database before it is used. If the write fails, the grant stays here for the
//! next attempt; the authorization server is not asked again, because the refresh token may already be used
//! up. Pauses after failures double, each shortened by random jitter.
//!
//! The account may change during a renewal: the file changes, or somebody logs in or out. A grant that
//! arrives too late is not used, and not lost either: it replaces its predecessor if that is still stored,
//! and is revoked if a person has ended the login.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use plexus_kit::{ExposeSecret, Stage};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Account, AccountState};
use crate::client::ClientError;
use crate::oauth::client::Client;
use crate::oauth::grant::{Grant, Source};
use crate::oauth::http::OauthHttp;
use crate::oauth::terms::Terms;
use crate::oauth::token::{self, TokenError, Tokens};
use crate::oauth::vault::{StoredGrant, Vault};
use crate::oauth::{LoginError, discovery, login, quoted};

/// Longest pause between two attempts, so that a recovered authorization server is noticed soon.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The result of an attempt; none while it is running.
type AttemptResult = Option<Result<(), ClientError>>;

#[derive(Default)]
pub(super) struct Renewal {
    running: Option<watch::Receiver<AttemptResult>>,
    /// Consecutive failures.
    failures: u32,
    pausing: Option<(Instant, ClientError)>,
    /// A grant that could not be written to the database.
    unsaved: Option<RenewedGrant>,
}

/// A grant that is to replace another.
struct RenewedGrant {
    /// The generation that it replaces.
    generation: u64,
    /// The terms under which it was requested.
    terms: Arc<Terms>,
    /// The grant whose refresh token was used, which may no longer be valid. None for the hub's own
    /// credentials.
    before: Option<Arc<Grant>>,
    grant: Grant,
}

impl Renewal {
    /// Clears failures that belong to an earlier state.
    pub(super) fn forget_trouble(&mut self) {
        (self.failures, self.pausing, self.unsaved) = (0, None, None);
    }

    /// The newest grant, if it could not be written to the database.
    pub(super) fn take_unsaved(&mut self) -> Option<Grant> {
        self.unsaved.take().map(|renewed| renewed.grant)
    }
}

/// The state of a requested renewal.
enum RenewalStart {
    /// The renewal has already happened.
    Done,
    Waiting(watch::Receiver<AttemptResult>),
    /// The last attempt failed, and the next one is not due yet.
    Later(ClientError),
}

/// Ends an attempt when dropped, even if it is aborted.
struct RunningAttempt(Arc<Account>);

impl Drop for RunningAttempt {
    fn drop(&mut self) {
        self.0.renewing().running = None;
    }
}

impl Account {
    pub(super) fn renewing(&self) -> MutexGuard<'_, Renewal> {
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the grant of this generation has been renewed or replaced.
    pub(super) async fn renew(self: &Arc<Self>, generation: u64, refused: bool) -> Result<(), ClientError> {
        let mut outcome = match self.start(generation, refused) {
            RenewalStart::Done => return Ok(()),
            RenewalStart::Later(error) => return Err(error),
            RenewalStart::Waiting(outcome) => outcome,
        };
        let ended = outcome.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
        ended.unwrap_or_else(|| Err(ClientError::Unreachable("the hub is stopping".to_owned())))
    }

    /// Like [`Self::renew`], without waiting.
    pub(super) fn renew_soon(self: &Arc<Self>, generation: u64) {
        drop(self.start(generation, false));
    }

    fn start(self: &Arc<Self>, generation: u64, refused: bool) -> RenewalStart {
        let mut renewal = self.renewing();
        if self.state.load().generation != generation {
            return RenewalStart::Done;
        }
        if let Some(running) = &renewal.running {
            return RenewalStart::Waiting(running.clone());
        }
        if let Some((until, error)) = &renewal.pausing
            && Instant::now() < *until
        {
            return RenewalStart::Later(error.clone());
        }
        let (ended, outcome) = watch::channel(None);
        renewal.running = Some(outcome.clone());
        drop(renewal);
        let turn = RunningAttempt(self.clone());
        let name = format!("upstream {}: renew its token", self.server);
        self.context.supervisor.spawn(Stage::Work, name, async move {
            let done = turn.0.attempt(generation, refused).await;
            // Later callers see the result of this attempt and start a new one only if that is not enough.
            drop(turn);
            let _ = ended.send(Some(done));
        });
        RenewalStart::Waiting(outcome)
    }

    async fn attempt(&self, generation: u64, refused: bool) -> Result<(), ClientError> {
        let unsaved = self.renewing().unsaved.take();
        let requested = match unsaved.filter(|renewed| renewed.generation == generation) {
            Some(renewed) => Ok(Some(renewed)),
            None => self.request_grant(generation).await,
        };
        match requested {
            Ok(None) => Ok(()),
            Ok(Some(mut renewed)) => {
                renewed.grant.after_refusal = refused;
                self.adopt(renewed).await
            }
            Err(TokenError::InvalidGrant(why)) => {
                if !self.end(generation, "its authorization server ended the login").await {
                    return Ok(());
                }
                tracing::warn!(server = %self.server, %why, "the authorization server ended the login; a new login is needed");
                let why = format!("the login has ended ({why})");
                Err(ClientError::NeedsLogin(self.wants_login(&why)))
            }
            // The failure concerned an earlier state.
            Err(_) if self.state.load().generation != generation => Ok(()),
            Err(TokenError::Other(why) | TokenError::Transient(why)) => {
                Err(self.schedule_retry(format!("the token cannot be renewed now: {why}")))
            }
        }
    }

    /// Asks the authorization server for a new grant. None: the state has already changed.
    async fn request_grant(&self, generation: u64) -> Result<Option<RenewedGrant>, TokenError> {
        let state = self.state.load_full();
        if state.generation != generation {
            return Ok(None);
        }
        let Some(terms) = state.terms.clone() else {
            return Err(TokenError::Transient("its file has not been read yet".to_owned()));
        };
        let oauth_http = OauthHttp::new(&terms, &self.context.settings)
            .map_err(|error| TokenError::Other(error.to_string()))?;
        let before = state.grant.clone().filter(|_| !terms.uses_client_credentials());
        let grant = match &before {
            _ if terms.uses_client_credentials() => self.request_own_token(&oauth_http, &terms).await?,
            Some(grant) => self.request_renewal(&oauth_http, &terms, grant).await?,
            None => return Err(nothing_to_renew()),
        };
        Ok(Some(RenewedGrant { generation, terms, before, grant }))
    }

    async fn request_renewal(
        &self,
        oauth_http: &OauthHttp,
        terms: &Terms,
        grant: &Grant,
    ) -> Result<Grant, TokenError> {
        let (source, refresh) = (&grant.source, grant.refresh.as_ref().ok_or_else(nothing_to_renew)?);
        let pairs = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.expose_secret()),
            ("resource", &source.resource),
        ];
        let tokens =
            token::ask(oauth_http, &source.token_endpoint, &source.client, &terms.oauth, &pairs).await?;
        grant.renewed(tokens, self.context.clock.now()).ok_or_else(unsendable)
    }

    /// Requests a token with the hub's own credentials.
    async fn request_own_token(&self, oauth_http: &OauthHttp, terms: &Terms) -> Result<Grant, TokenError> {
        let (source, scopes) = self.own_source(oauth_http, terms).await.map_err(|error| match error {
            LoginError::Unreachable(why) => TokenError::Transient(why),
            other => TokenError::Other(other.to_string()),
        })?;
        let scopes = scopes.join(" ");
        let mut pairs = vec![("grant_type", "client_credentials"), ("resource", &source.resource)];
        if !scopes.is_empty() {
            pairs.push(("scope", &scopes));
        }
        let requested =
            token::ask(oauth_http, &source.token_endpoint, &source.client, &terms.oauth, &pairs).await;
        let tokens = requested.map_err(|refused| match refused {
            // There is no refresh token that could have become invalid, so the problem is in the file.
            TokenError::InvalidGrant(why) => TokenError::Other(why),
            other => other,
        })?;
        // Requested again each time.
        let tokens = Tokens { refresh: None, ..tokens };
        Grant::new(source, tokens, self.context.clock.now()).ok_or_else(unsendable)
    }

    async fn own_source(
        &self,
        oauth_http: &OauthHttp,
        terms: &Terms,
    ) -> Result<(Source, Vec<String>), LoginError> {
        let challenge = oauth_http.challenge().await?;
        let resource = discovery::resource(oauth_http, terms, &challenge).await?;
        let authority = discovery::authority(oauth_http, &resource.issuer).await?;
        let client = Client::configured(&terms.oauth, &authority)?;
        let scopes = match (terms.oauth.scopes.is_empty(), challenge.scope) {
            (false, _) => terms.oauth.scopes.clone(),
            (true, Some(scope)) => vec![scope],
            (true, None) => resource.scopes,
        };
        Ok((login::source(terms, &authority, client, resource.id), scopes))
    }

    /// Stores a new grant, then uses it.
    async fn adopt(&self, renewed: RenewedGrant) -> Result<(), ClientError> {
        let turn = self.change_lock.lock().await;
        let state = self.state.load_full();
        if state.generation != renewed.generation {
            if self.store_late(&renewed).await {
                drop(turn);
                self.revoke_unwanted(&renewed.terms, &renewed.grant).await;
            }
            return Ok(());
        }
        if renewed.before.is_some()
            && let Some(vault) = &self.context.vault
            && let Err(error) = vault.save(&self.server, &renewed.grant).await
        {
            tracing::warn!(server = %self.server, %error, "the new token cannot be stored yet and is not used");
            self.renewing().unsaved = Some(renewed);
            return Err(self.schedule_retry("the new token cannot be stored now".to_owned()));
        }
        let issuer = quoted(&renewed.grant.source.issuer);
        tracing::debug!(server = %self.server, %issuer, "renewed the token");
        self.replace_state(AccountState {
            terms: state.terms.clone(),
            grant: Some(Arc::new(renewed.grant)),
            ..AccountState::default()
        });
        Ok(())
    }

    /// Handles a grant whose account changed during the renewal. Returns whether it should be revoked;
    /// otherwise it was stored in place of its predecessor, or a newer grant exists.
    async fn store_late(&self, renewed: &RenewedGrant) -> bool {
        let (Some(before), state) = (&renewed.before, self.state.load_full()) else { return false };
        let Some(vault) = &self.context.vault else { return state.grant.is_none() };
        let stored = match vault.read(&self.server).await {
            Ok(StoredGrant::Grant(stored)) if stored.is_sealed_form_of(before) => {
                vault.save(&self.server, &renewed.grant).await
            }
            Ok(StoredGrant::Nothing) => return true,
            // A login in the meantime produced a newer grant.
            Ok(StoredGrant::Grant(_) | StoredGrant::Unreadable) => return false,
            Err(error) => Err(error),
        };
        if let Err(error) = stored {
            tracing::warn!(server = %self.server, %error, "the new token cannot be stored; a new login may be needed");
        } else if state.is_for(&renewed.terms.binding) {
            // The file changed and changed back, so the account holds the predecessor again.
            let terms = state.terms.clone();
            match self.stored_state(vault, &renewed.terms.binding).await {
                Ok(restored) => self.replace_state(AccountState { terms, ..restored }),
                Err(error) => tracing::warn!(server = %self.server, %error, "the new token is not used yet"),
            }
        }
        false
    }

    /// Stores a grant that could not be stored before. The caller must hold `change_lock`, and must call this
    /// before replacing the predecessor.
    pub(super) async fn save_unsaved(&self, vault: &Vault) -> Result<(), String> {
        let unsaved = self.renewing().unsaved.take();
        let Some(renewed) = unsaved else { return Ok(()) };
        let stored = vault.save(&self.server, &renewed.grant).await;
        if stored.is_err() {
            self.renewing().unsaved = Some(renewed);
        }
        stored
    }

    /// Removes an ended login; returns false if the state has already changed.
    async fn end(&self, generation: u64, why: &str) -> bool {
        let _turn = self.change_lock.lock().await;
        let state = self.state.load_full();
        if state.generation != generation {
            return false;
        }
        if let Some(vault) = &self.context.vault
            && let Err(error) = vault.forget(&self.server).await
        {
            // After a restart the authorization server reports the same error, and the login is deleted then.
            tracing::warn!(server = %self.server, %error, "a login that has ended cannot be deleted yet");
        }
        self.replace_state(AccountState {
            terms: state.terms.clone(),
            why: Some(why.to_owned()),
            ..AccountState::default()
        });
        true
    }

    /// Records a failure and schedules the next attempt.
    fn schedule_retry(&self, why: String) -> ClientError {
        let timing = &self.context.timing;
        let mut renewal = self.renewing();
        let doubled = timing.first_pause.saturating_mul(1 << renewal.failures.min(16));
        let pause = timing.jitter.shorten(doubled.min(MAX_PAUSE));
        renewal.failures = renewal.failures.saturating_add(1);
        let error = ClientError::Unreachable(why);
        tracing::warn!(server = %self.server, %error, ?pause, failures = renewal.failures, "retrying later");
        renewal.pausing = Some((Instant::now() + pause, error.clone()));
        error
    }
}

fn unsendable() -> TokenError {
    TokenError::Transient("the issued token is not a valid header value".to_owned())
}

fn nothing_to_renew() -> TokenError {
    TokenError::InvalidGrant("there is no refresh token".to_owned())
}
