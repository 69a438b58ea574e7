//! The hub's tokens for one server: ready for every request, renewed before they expire and when the server
//! rejects them.
//!
//! A request takes the token from memory. A token that is about to expire is renewed while it is still used;
//! one that has expired makes requests wait. Of any number of requests that need a new token, only one asks
//! the authorization server (`renewal`). It runs in its own task, so that a caller that stops waiting cannot
//! interrupt it between the answer and the database write.

mod account_access;
mod login_flow;
mod renewal;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use plexus_kit::{Clock, Supervisor};

pub(crate) use self::account_access::{AccountAccess, BearerStatus};
use self::renewal::Renewal;
use super::grant::Grant;
use super::terms::Terms;
use super::vault::{StoredGrant, Vault};
use crate::Timing;
use crate::client::{ClientError, ClientSettings};
use crate::config::HttpConfig;

/// The parts of the hub that an account uses.
#[derive(Debug, Clone)]
pub(crate) struct AccountContext {
    pub(crate) clock: Clock,
    pub(crate) supervisor: Supervisor,
    pub(crate) settings: ClientSettings,
    pub(crate) timing: Timing,
    /// None: grants are held in memory only.
    pub(crate) vault: Option<Vault>,
}

pub struct Account {
    /// Name of the server's file.
    server: String,
    context: AccountContext,
    state: ArcSwap<AccountState>,
    renewal: Mutex<Renewal>,
    /// Held while a change is written to the database and then to `state`, so that both see the same order.
    change_lock: tokio::sync::Mutex<Logouts>,
}

/// The number of logouts. A login that started before a logout must not restore access.
type Logouts = u64;

/// The current grant and the terms that it is valid under.
#[derive(Default, Clone)]
struct AccountState {
    /// Increases with every change.
    generation: u64,
    /// The terms in the file; none before the file was first read.
    terms: Option<Arc<Terms>>,
    /// Granted under these terms.
    grant: Option<Arc<Grant>>,
    /// Why there is no grant although there was one.
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
            .field("state", &self.state.load())
            .finish_non_exhaustive()
    }
}

impl Account {
    pub(crate) fn new(server: &str, context: AccountContext) -> Arc<Self> {
        Arc::new(Self {
            server: server.to_owned(),
            context,
            state: ArcSwap::default(),
            renewal: Mutex::default(),
            change_lock: tokio::sync::Mutex::default(),
        })
    }

    /// Adopts the terms that the file now contains. A grant for other terms is not used but stays stored,
    /// because the file may change back.
    pub(crate) async fn follow(&self, http: &HttpConfig) -> Result<(), ClientError> {
        let terms = Arc::new(Terms::of(http)?);
        let _turn = self.change_lock.lock().await;
        let state = self.state.load_full();
        if state.is_for(&terms.binding) {
            // Some terms, such as the secret, are not part of the binding.
            self.state.store(Arc::new(AccountState { terms: Some(terms), ..AccountState::clone(&state) }));
            return Ok(());
        }
        let restored = match &self.context.vault {
            Some(vault) => {
                self.save_unsaved(vault).await.map_err(|error| {
                    ClientError::Unreachable(format!("the new token cannot be stored now: {error}"))
                })?;
                if terms.uses_client_credentials() {
                    AccountState::default()
                } else {
                    self.stored_state(vault, &terms.binding).await?
                }
            }
            None => AccountState::default(),
        };
        self.replace_state(AccountState { terms: Some(terms), ..restored });
        Ok(())
    }

    async fn stored_state(&self, vault: &Vault, binding: &str) -> Result<AccountState, ClientError> {
        let stored = vault.read(&self.server).await.map_err(|error| {
            ClientError::Unreachable(format!("the stored login cannot be read now: {error}"))
        })?;
        Ok(AccountState::of(stored, binding))
    }

    /// The caller must hold `change_lock`.
    fn replace_state(&self, state: AccountState) {
        let generation = self.state.load().generation + 1;
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner).forget_trouble();
        self.state.store(Arc::new(AccountState { generation, ..state }));
    }

    fn wants_login(&self, why: &str) -> String {
        format!("{why}: run `plexus upstream login {}`", self.server)
    }
}

impl AccountState {
    fn of(stored: StoredGrant, binding: &str) -> Self {
        let without = |why: &str| Self { why: Some(why.to_owned()), ..Self::default() };
        match stored {
            StoredGrant::Nothing => Self::default(),
            StoredGrant::Unreadable => without("its last login cannot be read with this hub's key"),
            StoredGrant::Grant(stored) if stored.binding != binding => {
                without("its file has changed since its last login")
            }
            StoredGrant::Grant(stored) => match stored.grant() {
                Some(grant) => Self { grant: Some(Arc::new(grant)), ..Self::default() },
                None => without("its last login is damaged"),
            },
        }
    }

    /// Whether the state belongs to these terms.
    fn is_for(&self, binding: &str) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.binding == binding)
    }

    /// Whether access needs no person, because the hub has its own credentials.
    fn uses_client_credentials(&self) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.uses_client_credentials())
    }

    /// Whether the grant can be renewed without a person.
    fn can_renew(&self, grant: &Grant) -> bool {
        grant.refresh.is_some() || self.uses_client_credentials()
    }
}
