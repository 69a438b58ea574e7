//! Access is renewed: once however many want it, and again later where that fails.
//!
//! What the authorization server answered is in the database before it is used. Where the database cannot take it, it
//! waits here for the next attempt: the authorization server is not asked a second time, since what it was asked with may
//! no longer be good. Pauses after failures double, each shortened by a random part.
//!
//! Access may change while it is renewed: the file leads elsewhere, somebody logs in or out. What comes too late for it is
//! not used, and not lost either: it takes the place of what it came from where that is still kept, and is given back where
//! a person has ended it.

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
use crate::oauth::token::{self, Refused, Tokens};
use crate::oauth::vault::{StoredGrant, Vault};
use crate::oauth::{LoginError, discovery, login, quoted};

/// Longest pause between two attempts: an authorization server that is back is found soon.
const LONGEST: Duration = Duration::from_secs(30);

/// How an attempt ended; none while it goes on.
type Outcome = Option<Result<(), ClientError>>;

#[derive(Default)]
pub(super) struct Renewal {
    running: Option<watch::Receiver<Outcome>>,
    /// Failures in a row, the newest with when there is another attempt.
    failures: u32,
    pausing: Option<(Instant, ClientError)>,
    /// What could not be put into the database.
    unkept: Option<Renewed>,
}

/// Access that is to take the place of other.
struct Renewed {
    /// The generation that it is to follow.
    of: u64,
    /// The terms that it was asked for under.
    terms: Arc<Terms>,
    /// What it was asked for with, which may no longer be good. None: the hub's own access comes from nothing.
    before: Option<Arc<Grant>>,
    grant: Grant,
}

impl Renewal {
    /// What was in the way was in the way of something else.
    pub(super) fn forget_trouble(&mut self) {
        (self.failures, self.pausing, self.unkept) = (0, None, None);
    }

    /// The newest access, if it could not be put into the database.
    pub(super) fn take_unkept(&mut self) -> Option<Grant> {
        self.unkept.take().map(|renewed| renewed.grant)
    }
}

/// How it stands with what is wanted.
enum Started {
    /// It was done meanwhile.
    Done,
    Waiting(watch::Receiver<Outcome>),
    /// The last attempt failed, and the next one is later.
    Later(ClientError),
}

/// Ends the turn of an attempt, also where it is cut short.
struct Turn(Arc<Account>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.renewing().running = None;
    }
}

impl Account {
    pub(super) fn renewing(&self) -> MutexGuard<'_, Renewal> {
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns as soon as there is newer access than that of this generation, or something else in its place.
    pub(super) async fn renew(self: &Arc<Self>, generation: u64, refused: bool) -> Result<(), ClientError> {
        let mut outcome = match self.start(generation, refused) {
            Started::Done => return Ok(()),
            Started::Later(error) => return Err(error),
            Started::Waiting(outcome) => outcome,
        };
        let ended = outcome.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
        ended.unwrap_or_else(|| Err(ClientError::Unreachable("the hub is stopping".to_owned())))
    }

    /// The same without waiting for it.
    pub(super) fn renew_soon(self: &Arc<Self>, generation: u64) {
        drop(self.start(generation, false));
    }

    fn start(self: &Arc<Self>, generation: u64, refused: bool) -> Started {
        let mut renewal = self.renewing();
        if self.held.load().generation != generation {
            return Started::Done;
        }
        if let Some(running) = &renewal.running {
            return Started::Waiting(running.clone());
        }
        if let Some((until, error)) = &renewal.pausing
            && Instant::now() < *until
        {
            return Started::Later(error.clone());
        }
        let (ended, outcome) = watch::channel(None);
        renewal.running = Some(outcome.clone());
        drop(renewal);
        let turn = Turn(self.clone());
        let name = format!("upstream {}: renew its access", self.server);
        self.around.supervisor.spawn(Stage::Work, name, async move {
            let done = turn.0.attempt(generation, refused).await;
            // Whoever comes from here on sees what came of it, and begins anew only if that is not enough.
            drop(turn);
            let _ = ended.send(Some(done));
        });
        Started::Waiting(outcome)
    }

    async fn attempt(&self, generation: u64, refused: bool) -> Result<(), ClientError> {
        let unkept = self.renewing().unkept.take();
        let asked = match unkept.filter(|renewed| renewed.of == generation) {
            Some(renewed) => Ok(Some(renewed)),
            None => self.ask(generation).await,
        };
        match asked {
            Ok(None) => Ok(()),
            Ok(Some(mut renewed)) => {
                renewed.grant.after_refusal = refused;
                self.adopt(renewed).await
            }
            Err(Refused::Grant(why)) => {
                if !self.end(generation, "its authorization server has ended its access").await {
                    return Ok(());
                }
                tracing::warn!(server = %self.server, %why, "its access has ended, and a login is needed");
                let why = format!("its access has ended ({why})");
                Err(ClientError::NeedsLogin(self.wants_login(&why)))
            }
            // It was about something else.
            Err(_) if self.held.load().generation != generation => Ok(()),
            Err(Refused::Other(why) | Refused::Passing(why)) => {
                Err(self.later(format!("its access cannot be renewed now: {why}")))
            }
        }
    }

    /// Asks the authorization server. None: there is something else already.
    async fn ask(&self, generation: u64) -> Result<Option<Renewed>, Refused> {
        let held = self.held.load_full();
        if held.generation != generation {
            return Ok(None);
        }
        let Some(terms) = held.terms.clone() else {
            return Err(Refused::Passing("its file has not been read yet".to_owned()));
        };
        let asking = OauthHttp::new(&terms, &self.around.settings)
            .map_err(|error| Refused::Other(error.to_string()))?;
        let before = held.grant.clone().filter(|_| !terms.by_itself());
        let grant = match &before {
            _ if terms.by_itself() => self.ask_by_itself(&asking, &terms).await?,
            Some(grant) => self.ask_with(&asking, &terms, grant).await?,
            None => return Err(nothing_to_renew()),
        };
        Ok(Some(Renewed { of: generation, terms, before, grant }))
    }

    async fn ask_with(&self, asking: &OauthHttp, terms: &Terms, grant: &Grant) -> Result<Grant, Refused> {
        let (source, refresh) = (&grant.source, grant.refresh.as_ref().ok_or_else(nothing_to_renew)?);
        let pairs = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.expose_secret()),
            ("resource", &source.resource),
        ];
        let tokens = token::ask(asking, &source.token_endpoint, &source.client, &terms.oauth, &pairs).await?;
        grant.renewed(tokens, self.around.clock.now()).ok_or_else(unsendable)
    }

    /// The hub's own access, which nobody has to give.
    async fn ask_by_itself(&self, asking: &OauthHttp, terms: &Terms) -> Result<Grant, Refused> {
        let (source, scopes) = self.own_source(asking, terms).await.map_err(|error| match error {
            LoginError::Unreachable(why) => Refused::Passing(why),
            other => Refused::Other(other.to_string()),
        })?;
        let scopes = scopes.join(" ");
        let mut pairs = vec![("grant_type", "client_credentials"), ("resource", &source.resource)];
        if !scopes.is_empty() {
            pairs.push(("scope", &scopes));
        }
        let asked = token::ask(asking, &source.token_endpoint, &source.client, &terms.oauth, &pairs).await;
        let tokens = asked.map_err(|refused| match refused {
            // There is no grant that could have ended: what is wrong is in the file.
            Refused::Grant(why) => Refused::Other(why),
            other => other,
        })?;
        // Asked for anew each time.
        let tokens = Tokens { refresh: None, ..tokens };
        Grant::new(source, tokens, self.around.clock.now()).ok_or_else(unsendable)
    }

    async fn own_source(
        &self,
        asking: &OauthHttp,
        terms: &Terms,
    ) -> Result<(Source, Vec<String>), LoginError> {
        let challenge = asking.challenge().await?;
        let resource = discovery::resource(asking, terms, &challenge).await?;
        let authority = discovery::authority(asking, &resource.issuer).await?;
        let client = Client::configured(&terms.oauth, &authority)?;
        let scopes = match (terms.oauth.scopes.is_empty(), challenge.scope) {
            (false, _) => terms.oauth.scopes.clone(),
            (true, Some(scope)) => vec![scope],
            (true, None) => resource.scopes,
        };
        Ok((login::source(terms, &authority, client, resource.id), scopes))
    }

    /// Keeps new access, and only then uses it.
    async fn adopt(&self, renewed: Renewed) -> Result<(), ClientError> {
        let turn = self.changing.lock().await;
        let held = self.held.load_full();
        if held.generation != renewed.of {
            if self.came_late(&renewed).await {
                drop(turn);
                self.give_back(&renewed.terms, &renewed.grant).await;
            }
            return Ok(());
        }
        if renewed.before.is_some()
            && let Some(vault) = &self.around.vault
            && let Err(error) = vault.keep(&self.server, &renewed.grant).await
        {
            tracing::warn!(server = %self.server, %error, "its new access cannot be stored yet, and is not used");
            self.renewing().unkept = Some(renewed);
            return Err(self.later("its new access cannot be stored now".to_owned()));
        }
        let issuer = quoted(&renewed.grant.source.issuer);
        tracing::debug!(server = %self.server, %issuer, "its access was renewed");
        self.put(AccountState {
            terms: held.terms.clone(),
            grant: Some(Arc::new(renewed.grant)),
            ..AccountState::default()
        });
        Ok(())
    }

    /// Something else is there than what access was renewed for. Whether the new one is to be given back; else it is kept
    /// in place of what it came from, or there is newer one.
    async fn came_late(&self, renewed: &Renewed) -> bool {
        let (Some(before), held) = (&renewed.before, self.held.load_full()) else { return false };
        let Some(vault) = &self.around.vault else { return held.grant.is_none() };
        let kept = match vault.read(&self.server).await {
            Ok(StoredGrant::Grant(stored)) if stored.is(before) => {
                vault.keep(&self.server, &renewed.grant).await
            }
            Ok(StoredGrant::Nothing) => return true,
            // Whoever logged in meanwhile has newer one.
            Ok(StoredGrant::Grant(_) | StoredGrant::Unreadable) => return false,
            Err(error) => Err(error),
        };
        if let Err(error) = kept {
            tracing::warn!(server = %self.server, %error, "its new access cannot be stored, and a login may be needed");
        } else if held.is_for(&renewed.terms.binding) {
            // The file has changed, and back again: what was found again is what this came from.
            let terms = held.terms.clone();
            match self.kept(vault, &renewed.terms.binding).await {
                Ok(found) => self.put(AccountState { terms, ..found }),
                Err(error) => tracing::warn!(server = %self.server, %error, "its new access is not used yet"),
            }
        }
        false
    }

    /// Stores what could not be stored before. To be called by whoever has `changing`, before something else takes the
    /// place of what it came from.
    pub(super) async fn keep_unkept(&self, vault: &Vault) -> Result<(), String> {
        let unkept = self.renewing().unkept.take();
        let Some(renewed) = unkept else { return Ok(()) };
        let kept = vault.keep(&self.server, &renewed.grant).await;
        if kept.is_err() {
            self.renewing().unkept = Some(renewed);
        }
        kept
    }

    /// There is no access any more; false where there is something else already.
    async fn end(&self, generation: u64, why: &str) -> bool {
        let _turn = self.changing.lock().await;
        let held = self.held.load_full();
        if held.generation != generation {
            return false;
        }
        if let Some(vault) = &self.around.vault
            && let Err(error) = vault.forget(&self.server).await
        {
            // The next hub finds it, is told the same, and forgets it then.
            tracing::warn!(server = %self.server, %error, "access that has ended cannot be forgotten yet");
        }
        self.put(AccountState {
            terms: held.terms.clone(),
            why: Some(why.to_owned()),
            ..AccountState::default()
        });
        true
    }

    /// Notes a failure, and when there is another attempt.
    fn later(&self, why: String) -> ClientError {
        let timing = &self.around.timing;
        let mut renewal = self.renewing();
        let doubled = timing.first_pause.saturating_mul(1 << renewal.failures.min(16));
        let pause = timing.jitter.shorten(doubled.min(LONGEST));
        renewal.failures = renewal.failures.saturating_add(1);
        let error = ClientError::Unreachable(why);
        tracing::warn!(server = %self.server, %error, ?pause, failures = renewal.failures, "tried again later");
        renewal.pausing = Some((Instant::now() + pause, error.clone()));
        error
    }
}

fn unsendable() -> Refused {
    Refused::Passing("the token that was given cannot be sent".to_owned())
}

fn nothing_to_renew() -> Refused {
    Refused::Grant("there is nothing to renew it with".to_owned())
}
