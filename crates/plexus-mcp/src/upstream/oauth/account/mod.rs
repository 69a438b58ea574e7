//! The access that the hub has to one server: at hand for every request, renewed before it ends and when the server
//! refuses it.
//!
//! A request takes a token from memory. One that is about to end is renewed while it is still used; one that has ended is
//! waited for. However many requests want that, one of them asks the authorization server (`renewal`); it does so in a
//! task of its own, so that nobody who stops waiting can stop it between the answer and the database.

mod access;
mod renewal;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use http::StatusCode;
use http::header::HeaderValue;
use plexus_kit::{Clock, Supervisor};

use self::renewal::Renewal;
use super::challenge::Challenge;
use super::grant::Grant;
use super::quoted;
use super::terms::Terms;
use super::vault::{Kept, Vault};
use crate::upstream::Timing;
use crate::upstream::client::{ClientError, ClientSettings, Reply};
use crate::upstream::config::HttpConfig;

/// What an account needs of the hub around it.
#[derive(Debug, Clone)]
pub(in crate::upstream) struct Surroundings {
    pub(in crate::upstream) clock: Clock,
    pub(in crate::upstream) supervisor: Supervisor,
    pub(in crate::upstream) settings: ClientSettings,
    pub(in crate::upstream) timing: Timing,
    /// None: access is kept in memory only.
    pub(in crate::upstream) vault: Option<Vault>,
}

pub struct Account {
    /// Name of the server's file.
    server: String,
    around: Surroundings,
    /// What the file says; none before it was first looked at.
    terms: ArcSwapOption<Terms>,
    held: ArcSwap<Held>,
    renewal: Mutex<Renewal>,
    /// Held while something is put into the database and then into `held`: the two have the same order.
    changing: tokio::sync::Mutex<()>,
}

/// What the hub has now.
#[derive(Debug, Default)]
struct Held {
    /// Grows with every change.
    generation: u64,
    grant: Option<Grant>,
    /// Why there is none, where there was one.
    why: Option<String>,
    /// There can be one without anybody giving it: the hub has access of its own.
    by_itself: bool,
}

/// Whether a request can be sent at once.
pub(in crate::upstream) enum AtHand {
    /// It can, with this or with nothing to show.
    Now(Option<Bearer>),
    /// There is something to be done about it first.
    Later,
}

/// What a request shows.
#[derive(Clone)]
pub(in crate::upstream) struct Bearer {
    pub(in crate::upstream) header: HeaderValue,
    generation: u64,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("server", &self.server)
            .field("held", &self.held.load())
            .finish_non_exhaustive()
    }
}

impl Account {
    pub(in crate::upstream) fn new(server: &str, around: Surroundings) -> Arc<Self> {
        Arc::new(Self {
            server: server.to_owned(),
            around,
            terms: ArcSwapOption::empty(),
            held: ArcSwap::default(),
            renewal: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
        })
    }

    /// Goes by what the file says now. Access that was given under other terms is not used, and stays where it is kept:
    /// the file may change back.
    pub(in crate::upstream) async fn follow(&self, http: &HttpConfig) -> Result<(), ClientError> {
        let terms = Terms::of(http)?;
        let _turn = self.changing.lock().await;
        let same = self.terms.load().as_ref().is_some_and(|known| known.binding == terms.binding);
        if same {
            // Not all of them are part of what binds: a secret may be another one.
            self.terms.store(Some(Arc::new(terms)));
            return Ok(());
        }
        let held = match &self.around.vault {
            Some(vault) if !terms.by_itself() => {
                let kept = vault.read(&self.server).await.map_err(|error| {
                    ClientError::Unreachable(format!("what is kept of its login cannot be read now: {error}"))
                })?;
                Held::of(kept, &terms.binding)
            }
            _ => Held::default(),
        };
        self.terms.store(Some(Arc::new(terms)));
        self.put(held);
        Ok(())
    }

    /// To be called by whoever has `changing`.
    fn put(&self, held: Held) {
        let generation = self.held.load().generation + 1;
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner).forget_trouble();
        let by_itself = self.by_itself();
        self.held.store(Arc::new(Held { generation, by_itself, ..held }));
    }

    fn by_itself(&self) -> bool {
        self.terms.load().as_ref().is_some_and(|terms| terms.by_itself())
    }

    /// What a request can show at once. Every request to any server over HTTP comes by here.
    pub(in crate::upstream) fn at_hand(&self) -> AtHand {
        let held = self.held.load();
        match &held.grant {
            None if !held.by_itself => AtHand::Now(None),
            Some(grant) if !grant.is_due(self.around.clock.now()) => AtHand::Now(Some(held.bearer(grant))),
            Some(_) | None => AtHand::Later,
        }
    }

    /// The same, after what has to be waited for. None: there is nothing to show, and the server may not want anything.
    pub(in crate::upstream) async fn bearer(self: &Arc<Self>) -> Result<Option<Bearer>, ClientError> {
        let held = self.held.load_full();
        let Some(grant) = &held.grant else {
            return if held.by_itself { self.renew(held.generation, false).await } else { Ok(None) };
        };
        let renewable = grant.refresh.is_some() || held.by_itself;
        match grant.has_expired(self.around.clock.now()) {
            true if renewable => self.renew(held.generation, false).await,
            // Whether it has ended is for the server to say.
            true => Ok(Some(held.bearer(grant))),
            false => {
                if renewable {
                    self.renew_soon(held.generation);
                }
                Ok(Some(held.bearer(grant)))
            }
        }
    }

    /// What to show instead of what the server has refused. None: nothing else would help.
    pub(in crate::upstream) async fn renewed(
        self: &Arc<Self>,
        refused: Option<&Bearer>,
    ) -> Result<Option<Bearer>, ClientError> {
        let held = self.held.load_full();
        let shown = refused.map(|bearer| bearer.generation);
        match &held.grant {
            // Somebody was faster.
            Some(grant) if shown != Some(held.generation) => Ok(Some(held.bearer(grant))),
            Some(grant) if grant.may_help_again() && (grant.refresh.is_some() || held.by_itself) => {
                self.renew(held.generation, true).await
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Whether the server has refused what was shown to it; it is remembered of what it has not.
    pub(in crate::upstream) fn is_refused(&self, reply: &Reply, shown: Option<&Bearer>) -> bool {
        if !reply.is_own() {
            return false;
        }
        if reply.status() == StatusCode::UNAUTHORIZED {
            return true;
        }
        let Some(shown) = shown else { return false };
        let held = self.held.load();
        if let (true, Some(grant)) = (shown.generation == held.generation, &held.grant) {
            grant.accept();
        }
        false
    }

    /// What a refusal means where a login may help; none where it is one like any other.
    pub(in crate::upstream) fn explain(
        &self,
        place: &str,
        status: StatusCode,
        challenge: &Challenge,
    ) -> Option<ClientError> {
        let held = self.held.load();
        let terms = self.terms.load_full()?;
        let server = &self.server;
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
        if terms.by_itself() {
            let issuer = held.grant.as_ref().map_or("nobody", |grant| &grant.source.issuer);
            return Some(ClientError::Protocol(format!(
                "{place} does not take ({status}) the access that the hub was given by {}: check `auth.scopes` and \
                 `auth.client_id` in the server's file",
                quoted(issuer)
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
        Some(ClientError::NeedsLogin(self.wants_login(&format!("{place} wants a login{why}"))))
    }

    fn wants_login(&self, why: &str) -> String {
        format!("{why}: run `plexus upstream login {}`", self.server)
    }
}

impl Held {
    fn of(kept: Kept, binding: &str) -> Self {
        let without = |why: &str| Self { why: Some(why.to_owned()), ..Self::default() };
        match kept {
            Kept::Nothing => Self::default(),
            Kept::Unreadable => without("its last login cannot be read with the key of this hub"),
            Kept::Grant(stored) if stored.binding != binding => {
                without("its file has changed since its last login")
            }
            Kept::Grant(stored) => match stored.grant() {
                Some(grant) => Self { grant: Some(grant), ..Self::default() },
                None => without("its last login is damaged"),
            },
        }
    }

    fn bearer(&self, grant: &Grant) -> Bearer {
        Bearer { header: grant.header.clone(), generation: self.generation }
    }
}
