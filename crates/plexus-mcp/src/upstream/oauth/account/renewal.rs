//! Access is renewed: once however many want it, and again later where that fails.
//!
//! What the authorization server answered is in the database before it is used. Where the database cannot take it, it
//! waits here for the next attempt: the authorization server is not asked a second time, since what it was asked with may
//! no longer be good. Pauses after failures double, each shortened by a random part.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use plexus_kit::{ExposeSecret, Stage};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Account, Bearer, Held};
use crate::upstream::client::ClientError;
use crate::upstream::oauth::asking::Asking;
use crate::upstream::oauth::client::Client;
use crate::upstream::oauth::grant::{Grant, Source};
use crate::upstream::oauth::terms::Terms;
use crate::upstream::oauth::token::{self, Refused, Tokens};
use crate::upstream::oauth::{LoginError, discovery, login, quoted};

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
    /// What could not be put into the database, and in place of what.
    unkept: Option<(u64, Grant)>,
}

impl Renewal {
    /// What was in the way was in the way of something else.
    pub(super) fn forget_trouble(&mut self) {
        (self.failures, self.pausing, self.unkept) = (0, None, None);
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
    fn renewing(&self) -> MutexGuard<'_, Renewal> {
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Newer access than that of this generation, as soon as there is any.
    pub(super) async fn renew(
        self: &Arc<Self>,
        generation: u64,
        refused: bool,
    ) -> Result<Option<Bearer>, ClientError> {
        let mut outcome = match self.start(generation, refused) {
            Started::Done => return Ok(self.current()),
            Started::Later(error) => return Err(error),
            Started::Waiting(outcome) => outcome,
        };
        let ended = outcome.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
        match ended {
            Some(Ok(())) => Ok(self.current()),
            Some(Err(error)) => Err(error),
            None => Err(ClientError::Unreachable("the hub is stopping".to_owned())),
        }
    }

    /// The same without waiting for it.
    pub(super) fn renew_soon(self: &Arc<Self>, generation: u64) {
        drop(self.start(generation, false));
    }

    fn current(&self) -> Option<Bearer> {
        let held = self.held.load();
        held.grant.as_ref().map(|grant| held.bearer(grant))
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
        let unkept = self.renewing().unkept.take().filter(|(of, _)| *of == generation);
        let asked = match unkept {
            Some((_, grant)) => Ok(grant),
            None => self.ask().await,
        };
        match asked {
            Ok(mut grant) => {
                grant.after_refusal = refused;
                self.adopt(generation, grant).await
            }
            Err(Refused::Grant(why)) => {
                tracing::warn!(server = %self.server, %why, "its access has ended, and a login is needed");
                self.end(generation, "its authorization server has ended its access").await;
                let why = format!("its access has ended ({why})");
                Err(ClientError::NeedsLogin(self.wants_login(&why)))
            }
            Err(Refused::Other(why) | Refused::Passing(why)) => {
                Err(self.later(format!("its access cannot be renewed now: {why}")))
            }
        }
    }

    /// Asks the authorization server.
    async fn ask(&self) -> Result<Grant, Refused> {
        let Some(terms) = self.terms.load_full() else {
            return Err(Refused::Passing("its file has not been read yet".to_owned()));
        };
        let asking =
            Asking::new(&terms, &self.around.settings).map_err(|error| Refused::Other(error.to_string()))?;
        if terms.by_itself() {
            return self.ask_by_itself(&asking, &terms).await;
        }
        let held = self.held.load_full();
        let Some((grant, refresh)) =
            held.grant.as_ref().and_then(|grant| Some((grant, grant.refresh.as_ref()?)))
        else {
            return Err(Refused::Grant("there is nothing to renew it with".to_owned()));
        };
        let source = &grant.source;
        let pairs = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.expose_secret()),
            ("resource", &source.resource),
        ];
        let tokens =
            token::ask(&asking, &source.token_endpoint, &source.client, &terms.oauth, &pairs).await?;
        grant.renewed(tokens, self.around.clock.now()).ok_or_else(unsendable)
    }

    /// The hub's own access, which nobody has to give.
    async fn ask_by_itself(&self, asking: &Asking, terms: &Terms) -> Result<Grant, Refused> {
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

    async fn own_source(&self, asking: &Asking, terms: &Terms) -> Result<(Source, Vec<String>), LoginError> {
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

    /// Keeps new access, and only then uses it. Whoever logged in meanwhile has newer one.
    async fn adopt(&self, generation: u64, grant: Grant) -> Result<(), ClientError> {
        let _turn = self.changing.lock().await;
        if self.held.load().generation != generation {
            return Ok(());
        }
        if !self.by_itself()
            && let Some(vault) = &self.around.vault
            && let Err(error) = vault.keep(&self.server, &grant).await
        {
            tracing::warn!(server = %self.server, %error, "its new access cannot be stored yet, and is not used");
            self.renewing().unkept = Some((generation, grant));
            return Err(self.later("its new access cannot be stored now".to_owned()));
        }
        tracing::debug!(server = %self.server, issuer = %quoted(&grant.source.issuer), "its access was renewed");
        self.put(Held { grant: Some(grant), ..Held::default() });
        Ok(())
    }

    /// There is no access any more.
    async fn end(&self, generation: u64, why: &str) {
        let _turn = self.changing.lock().await;
        if self.held.load().generation != generation {
            return;
        }
        if let Some(vault) = &self.around.vault
            && let Err(error) = vault.forget(&self.server).await
        {
            // The next hub finds it, is told the same, and forgets it then.
            tracing::warn!(server = %self.server, %error, "access that has ended cannot be forgotten yet");
        }
        self.put(Held { why: Some(why.to_owned()), ..Held::default() });
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
