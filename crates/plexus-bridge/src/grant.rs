//! The grant of an agent: the token that it got when it was connected, and the hub that issued it.
//!
//! Each agent has one file, readable by its owner only. The agent's own files never contain the token: they only name
//! the command that starts the proxy. The proxy reads the token here and stores renewed tokens here, so the file
//! always has the newest one. A token renewed while the file was removed or replaced is not stored.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use plexus_kit::{Secret, private_file};
use plexus_proto::api::{CreateTokenParams, CreatedToken};
use plexus_proto::{Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use crate::error::BridgeError;

const FOLDER: &str = "grants";
const LOCK: &str = "lock";
/// The extension of a marker file for a disconnected agent.
const DISCONNECTED_EXTENSION: &str = "taken";
/// The number of tokens remembered for revocation on disconnect; older ones have expired.
const MAX_TOKENS: usize = 8;

/// A token and its properties.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// Changes each time the agent is connected, but not when the proxy renews the token.
    pub id: String,
    /// The URL of the issuing hub; none for the hub of this machine, whatever its current address.
    pub hub: Option<String>,
    /// It was issued with the admin token of this machine's hub, which may issue another.
    pub by_admin: bool,
    /// The requested permissions, to request them again.
    pub asked: CreateTokenParams,
    token: String,
    /// All tokens issued for it, newest last.
    pub tokens: Vec<TokenId>,
    pub scopes: Vec<String>,
    pub expires_at: Timestamp,
    /// The time until which the proxy can renew it.
    pub renew_until: Option<Timestamp>,
    /// When the proxy renews it, by the clock of this machine; none if not known yet.
    pub renew_at: Option<Timestamp>,
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("hub", &self.hub).field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

impl Grant {
    #[must_use]
    pub fn new(
        hub: Option<String>,
        by_admin: bool,
        requested: CreateTokenParams,
        created: &CreatedToken,
    ) -> Self {
        let grant = Self {
            id: format!("{:016x}", rand::random::<u64>()),
            hub,
            by_admin,
            // A later request repeats the granted values, which may differ from the requested ones.
            asked: CreateTokenParams {
                scopes: created.scopes.clone(),
                profile: created.profile.clone(),
                node: created.node.clone(),
                ..requested
            },
            token: String::new(),
            tokens: Vec::new(),
            scopes: Vec::new(),
            expires_at: created.expires_at,
            renew_until: None,
            renew_at: None,
        };
        grant.with_token(created, None)
    }

    /// The same grant with another token.
    #[must_use]
    pub fn with_token(mut self, created: &CreatedToken, renew_at: Option<Timestamp>) -> Self {
        self.renew_at = renew_at;
        self.token.clone_from(&created.token);
        self.tokens.push(created.jti);
        let old = self.tokens.len().saturating_sub(MAX_TOKENS);
        self.tokens.drain(..old);
        self.scopes.clone_from(&created.scopes);
        (self.expires_at, self.renew_until) = (created.expires_at, created.renew_until);
        self
    }

    #[must_use]
    pub fn token(&self) -> Secret {
        Secret::from(self.token.as_str())
    }

    /// The time until which the agent has access, if its proxy runs from time to time.
    #[must_use]
    pub fn access_until(&self) -> Timestamp {
        self.renew_until.map_or(self.expires_at, |until| until.max(self.expires_at))
    }
}

/// The grants of one user, stored next to the ledger.
#[derive(Debug, Clone)]
pub struct Grants(PathBuf);

impl Grants {
    /// `folder` is the ledger's folder.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self(folder.join(FOLDER))
    }

    /// Agent names come from the table or from `plexus mcp --agent`; no name can point outside the folder.
    fn file(&self, agent: &str) -> Option<PathBuf> {
        let plain = !agent.is_empty()
            && !agent.starts_with('.')
            && agent.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        plain.then(|| self.0.join(format!("{agent}.json")))
    }

    /// The grant of an agent, if it has one.
    pub fn read(&self, agent: &str) -> Result<Option<Grant>, BridgeError> {
        let Some(path) = self.file(agent) else { return Ok(None) };
        let broken = |why: String| BridgeError::Ledger { path: path.clone(), why };
        let content = match private_file::read(&path) {
            // Without a folder there is no file; operations that need the folder report the error.
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => None,
            read => read.map_err(|error| broken(error.to_string()))?,
        };
        let Some(content) = content else { return Ok(None) };
        // The parser's message is not shown, because it may quote the file.
        serde_json::from_slice(&content)
            .map(Some)
            .map_err(|_| broken("it is not in the expected format".to_owned()))
    }

    /// Locks the grants for a change.
    fn lock(&self) -> Result<File, BridgeError> {
        private_file::create_dir(&self.0).map_err(BridgeError::io(&self.0, "make the folder"))?;
        let path = self.0.join(LOCK);
        let file = private_file::open(&path).map_err(BridgeError::io(&path, "open"))?;
        file.lock().map_err(BridgeError::io(&path, "lock"))?;
        // Leftovers of a killed process may contain a token.
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|ending| ending.to_string_lossy().starts_with("tmp")) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        Ok(file)
    }

    /// Whether the agent was disconnected. Proxies started for it then get no token until it is connected again.
    #[must_use]
    pub fn is_disconnected(&self, agent: &str) -> bool {
        self.file(agent).is_some_and(|path| path.with_extension(DISCONNECTED_EXTENSION).exists())
    }

    pub fn write(&self, agent: &str, grant: &Grant) -> Result<(), BridgeError> {
        let _lock = self.lock()?;
        self.write_locked(agent, grant)
    }

    /// Replaces the token of the grant with this id; false if the grant has been replaced.
    pub fn renew(
        &self,
        agent: &str,
        id: &str,
        created: &CreatedToken,
        renew_at: Option<Timestamp>,
    ) -> Result<bool, BridgeError> {
        let _lock = self.lock()?;
        match self.read(agent)?.filter(|grant| grant.id == id) {
            Some(grant) => self.write_locked(agent, &grant.with_token(created, renew_at)).map(|()| true),
            None => Ok(false),
        }
    }

    fn write_locked(&self, agent: &str, grant: &Grant) -> Result<(), BridgeError> {
        let Some(path) = self.file(agent) else {
            return Err(BridgeError::refused(&self.0, "cannot store this name", "use letters and digits"));
        };
        let _ = std::fs::remove_file(path.with_extension(DISCONNECTED_EXTENSION));
        let content = serde_json::to_vec(grant)
            .map_err(|error| BridgeError::Ledger { path: path.clone(), why: error.to_string() })?;
        private_file::write(&path, &content).map_err(BridgeError::io(&path, "write"))
    }

    /// Removes the grant and returns it.
    pub fn remove(&self, agent: &str) -> Result<Option<Grant>, BridgeError> {
        if !self.0.exists() {
            return Ok(None);
        }
        let _lock = self.lock()?;
        // An unreadable grant is removed too: it is of no use.
        let grant = self.read(agent).unwrap_or_default();
        let Some(path) = self.file(agent) else { return Ok(None) };
        let marker = path.with_extension(DISCONNECTED_EXTENSION);
        private_file::write(&marker, b"").map_err(BridgeError::io(&marker, "write"))?;
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(grant),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BridgeError::io(&path, "remove")(error)),
        }
    }
}
