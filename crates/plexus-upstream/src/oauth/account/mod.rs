//! The access that the hub has to one server: at hand for every request, renewed before it ends and when the server
//! refuses it.
//!
//! A request takes a token from memory. One that is about to end is renewed while it is still used; one that has ended is
//! waited for. However many requests want that, one of them asks the authorization server (`renewal`); it does so in a
//! task of its own, so that nobody who stops waiting can stop it between the answer and the database.

mod access;
mod pass;
mod renewal;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use plexus_kit::{Clock, Supervisor};

pub(crate) use self::pass::{AtHand, Pass};
use self::renewal::Renewal;
use super::grant::Grant;
use super::terms::Terms;
use super::vault::{StoredGrant, Vault};
use crate::Timing;
use crate::client::{ClientError, ClientSettings};
use crate::config::HttpConfig;

/// What an account needs of the hub around it.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) clock: Clock,
    pub(crate) supervisor: Supervisor,
    pub(crate) settings: ClientSettings,
    pub(crate) timing: Timing,
    /// None: access is kept in memory only.
    pub(crate) vault: Option<Vault>,
}

pub struct Account {
    /// Name of the server's file.
    server: String,
    around: Surroundings,
    held: ArcSwap<AccountState>,
    renewal: Mutex<Renewal>,
    /// Held while something is put into the database and then into `held`: the two have the same order.
    changing: tokio::sync::Mutex<Logouts>,
}

/// How often access was taken away. What was begun before that must not bring it back.
type Logouts = u64;

/// What the hub has now, and under which terms.
#[derive(Default, Clone)]
struct AccountState {
    /// Grows with every change of what there is.
    generation: u64,
    /// What the file says; none before it was first looked at.
    terms: Option<Arc<Terms>>,
    /// Given under these terms.
    grant: Option<Arc<Grant>>,
    /// Why there is none, where there was one.
    why: Option<String>,
}

impl fmt::Debug for AccountState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountState")
            .field("generation", &self.generation)
            .field("grant", &self.grant)
            .finish_non_exhaustive()
    }
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
    pub(crate) fn new(server: &str, around: Surroundings) -> Arc<Self> {
        Arc::new(Self {
            server: server.to_owned(),
            around,
            held: ArcSwap::default(),
            renewal: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
        })
    }

    /// Goes by what the file says now. Access that was given under other terms is not used, and stays where it is kept:
    /// the file may change back.
    pub(crate) async fn follow(&self, http: &HttpConfig) -> Result<(), ClientError> {
        let terms = Arc::new(Terms::of(http)?);
        let _turn = self.changing.lock().await;
        let held = self.held.load_full();
        if held.is_for(&terms.binding) {
            // Not all of them are part of what binds: a secret may be another one.
            self.held.store(Arc::new(AccountState { terms: Some(terms), ..AccountState::clone(&held) }));
            return Ok(());
        }
        let found = match &self.around.vault {
            Some(vault) => {
                self.keep_unkept(vault).await.map_err(|error| {
                    ClientError::Unreachable(format!("its new access cannot be stored now: {error}"))
                })?;
                if terms.by_itself() {
                    AccountState::default()
                } else {
                    self.kept(vault, &terms.binding).await?
                }
            }
            None => AccountState::default(),
        };
        self.put(AccountState { terms: Some(terms), ..found });
        Ok(())
    }

    async fn kept(&self, vault: &Vault, binding: &str) -> Result<AccountState, ClientError> {
        let kept = vault.read(&self.server).await.map_err(|error| {
            ClientError::Unreachable(format!("what is kept of its login cannot be read now: {error}"))
        })?;
        Ok(AccountState::of(kept, binding))
    }

    /// To be called by whoever has `changing`.
    fn put(&self, held: AccountState) {
        let generation = self.held.load().generation + 1;
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner).forget_trouble();
        self.held.store(Arc::new(AccountState { generation, ..held }));
    }

    fn wants_login(&self, why: &str) -> String {
        format!("{why}: run `plexus upstream login {}`", self.server)
    }
}

impl AccountState {
    fn of(kept: StoredGrant, binding: &str) -> Self {
        let without = |why: &str| Self { why: Some(why.to_owned()), ..Self::default() };
        match kept {
            StoredGrant::Nothing => Self::default(),
            StoredGrant::Unreadable => without("its last login cannot be read with the key of this hub"),
            StoredGrant::Grant(stored) if stored.binding != binding => {
                without("its file has changed since its last login")
            }
            StoredGrant::Grant(stored) => match stored.grant() {
                Some(grant) => Self { grant: Some(Arc::new(grant)), ..Self::default() },
                None => without("its last login is damaged"),
            },
        }
    }

    /// Whether these are the terms of what is held.
    fn is_for(&self, binding: &str) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.binding == binding)
    }

    /// There can be access without anybody giving it: the hub has its own.
    fn by_itself(&self) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.by_itself())
    }

    /// Whether newer access than this can be had without anybody giving it.
    fn can_renew(&self, grant: &Grant) -> bool {
        grant.refresh.is_some() || self.by_itself()
    }
}
