//! What an agent shows to the hub: a token that was made for it when it was connected, and by which hub.
//!
//! One file for each agent, which only its owner reads. No file of an agent has the token: there is only the command that
//! starts the proxy, and the proxy finds it here.

use std::fmt;
use std::path::{Path, PathBuf};

use plexus_kit::{Secret, private_file};
use plexus_proto::api::{CreateTokenParams, CreatedToken};
use plexus_proto::{Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use crate::error::BridgeError;

const FOLDER: &str = "grants";
/// Tokens that are remembered, to be revoked with the connection; older ones have expired.
const REMEMBERED: usize = 8;

/// A token and what it is good for.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// Another one each time that somebody gives the agent a token; not when the proxy gets it a new one.
    pub id: String,
    /// URL of the hub that made it; none: this machine's own, wherever that listens by now.
    pub hub: Option<String>,
    /// What was asked for, and is asked for again on the machine of the hub.
    pub asked: CreateTokenParams,
    token: String,
    /// All tokens that were made for it, newest last.
    pub tokens: Vec<TokenId>,
    pub scopes: Vec<String>,
    pub expires_at: Timestamp,
    /// Until when the proxy can renew it.
    pub renew_until: Option<Timestamp>,
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("hub", &self.hub).field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

impl Grant {
    #[must_use]
    pub fn new(hub: Option<String>, asked: CreateTokenParams, made: &CreatedToken) -> Self {
        let grant = Self {
            id: format!("{:016x}", rand::random::<u64>()),
            hub,
            asked,
            token: String::new(),
            tokens: Vec::new(),
            scopes: Vec::new(),
            expires_at: made.expires_at,
            renew_until: None,
        };
        grant.with(made)
    }

    /// The same with another token.
    #[must_use]
    pub fn with(mut self, made: &CreatedToken) -> Self {
        self.token.clone_from(&made.token);
        self.tokens.push(made.jti);
        let old = self.tokens.len().saturating_sub(REMEMBERED);
        self.tokens.drain(..old);
        self.scopes.clone_from(&made.scopes);
        (self.expires_at, self.renew_until) = (made.expires_at, made.renew_until);
        self
    }

    #[must_use]
    pub fn token(&self) -> Secret {
        Secret::from(self.token.as_str())
    }

    /// Until when the agent is let in, if its proxy runs from time to time.
    #[must_use]
    pub fn good_until(&self) -> Timestamp {
        self.renew_until.map_or(self.expires_at, |until| until.max(self.expires_at))
    }
}

/// The grants of one user, beside the ledger.
#[derive(Debug, Clone)]
pub struct Grants(PathBuf);

impl Grants {
    /// `folder` is the one of the ledger.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self(folder.join(FOLDER))
    }

    /// Names of agents are those of the table, or what `plexus mcp --agent` takes: no name leads elsewhere.
    fn file(&self, agent: &str) -> Option<PathBuf> {
        let plain = !agent.is_empty()
            && !agent.starts_with('.')
            && agent.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        plain.then(|| self.0.join(format!("{agent}.json")))
    }

    /// That of an agent; none where it has none.
    pub fn read(&self, agent: &str) -> Result<Option<Grant>, BridgeError> {
        let Some(path) = self.file(agent) else { return Ok(None) };
        let broken = |why: String| BridgeError::Ledger { path: path.clone(), why };
        let Some(content) = private_file::read(&path).map_err(|error| broken(error.to_string()))? else {
            return Ok(None);
        };
        // What is wrong with it is not said in the words of the parser: they may quote it.
        serde_json::from_slice(&content)
            .map(Some)
            .map_err(|_| broken("it is not what was written".to_owned()))
    }

    pub fn write(&self, agent: &str, grant: &Grant) -> Result<(), BridgeError> {
        let Some(path) = self.file(agent) else {
            return Err(BridgeError::refused(
                &self.0,
                "has no place for this name",
                "use letters and digits",
            ));
        };
        private_file::create_dir(&self.0).map_err(BridgeError::io(&self.0, "make the folder"))?;
        let content = serde_json::to_vec(grant)
            .map_err(|error| BridgeError::Ledger { path: path.clone(), why: error.to_string() })?;
        private_file::write(&path, &content).map_err(BridgeError::io(&path, "write"))
    }

    /// Removes it, and gives what it was.
    pub fn take(&self, agent: &str) -> Result<Option<Grant>, BridgeError> {
        // One that cannot be read goes as well: whose it was is not known, and it is good for nothing.
        let grant = self.read(agent).unwrap_or_default();
        let Some(path) = self.file(agent) else { return Ok(None) };
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(grant),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BridgeError::io(&path, "remove")(error)),
        }
    }
}
