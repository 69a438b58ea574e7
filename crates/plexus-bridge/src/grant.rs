//! What an agent shows to the hub: a token that was made for it when it was connected, and by which hub.
//!
//! One file for each agent, which only its owner reads. No file of an agent has the token: there is only the command that
//! starts the proxy, and the proxy finds it here, and puts here what it was renewed to. So the file always has the newest, and a
//! token that was made while somebody took the file away or wrote another one does not get into it.

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
/// Ending of a file that says that an agent was disconnected.
const TAKEN: &str = "taken";
/// Tokens that are remembered, to be revoked with the connection; older ones have expired.
const REMEMBERED: usize = 8;

/// A token and what it is good for.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// Another one each time that somebody gives the agent a token; not when the proxy gets it a new one.
    pub id: String,
    /// URL of the hub that made it; none: this machine's own, wherever that listens by now.
    pub hub: Option<String>,
    /// It was made with the admin token of this machine's hub, which may make another like it.
    pub by_admin: bool,
    /// What it may do, as it is asked for again.
    pub asked: CreateTokenParams,
    token: String,
    /// All tokens that were made for it, newest last.
    pub tokens: Vec<TokenId>,
    pub scopes: Vec<String>,
    pub expires_at: Timestamp,
    /// Until when the proxy can renew it.
    pub renew_until: Option<Timestamp>,
    /// When it does so, by the clock of this machine; none: it is not known yet.
    pub renew_at: Option<Timestamp>,
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("hub", &self.hub).field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

impl Grant {
    #[must_use]
    pub fn new(hub: Option<String>, by_admin: bool, asked: CreateTokenParams, made: &CreatedToken) -> Self {
        let grant = Self {
            id: format!("{:016x}", rand::random::<u64>()),
            hub,
            by_admin,
            // What came from whoever made it, and not from a wish, is to be the same again.
            asked: CreateTokenParams {
                scopes: made.scopes.clone(),
                profile: made.profile.clone(),
                node: made.node.clone(),
                ..asked
            },
            token: String::new(),
            tokens: Vec::new(),
            scopes: Vec::new(),
            expires_at: made.expires_at,
            renew_until: None,
            renew_at: None,
        };
        grant.with(made, None)
    }

    /// The same with another token.
    #[must_use]
    pub fn with(mut self, made: &CreatedToken, renew_at: Option<Timestamp>) -> Self {
        self.renew_at = renew_at;
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
        let content = match private_file::read(&path) {
            // Where no folder can be there is no file in it; whoever needs the folder says so.
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => None,
            read => read.map_err(|error| broken(error.to_string()))?,
        };
        let Some(content) = content else { return Ok(None) };
        // What is wrong with it is not said in the words of the parser: they may quote it.
        serde_json::from_slice(&content)
            .map(Some)
            .map_err(|_| broken("it is not what was written".to_owned()))
    }

    /// One at a time changes them.
    fn lock(&self) -> Result<File, BridgeError> {
        private_file::create_dir(&self.0).map_err(BridgeError::io(&self.0, "make the folder"))?;
        let path = self.0.join(LOCK);
        let file = private_file::open(&path).map_err(BridgeError::io(&path, "open"))?;
        file.lock().map_err(BridgeError::io(&path, "lock"))?;
        // What a process that was killed has left may hold a token.
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|ending| ending.to_string_lossy().starts_with("tmp")) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        Ok(file)
    }

    /// Whether the agent was disconnected: what is started for it then is given nothing, until it is connected again.
    #[must_use]
    pub fn is_taken(&self, agent: &str) -> bool {
        self.file(agent).is_some_and(|path| path.with_extension(TAKEN).exists())
    }

    pub fn write(&self, agent: &str, grant: &Grant) -> Result<(), BridgeError> {
        let _lock = self.lock()?;
        self.put(agent, grant)
    }

    /// Puts another token into the grant of this id; false where that is not the one any more.
    pub fn renew(
        &self,
        agent: &str,
        id: &str,
        made: &CreatedToken,
        renew_at: Option<Timestamp>,
    ) -> Result<bool, BridgeError> {
        let _lock = self.lock()?;
        match self.read(agent)?.filter(|grant| grant.id == id) {
            Some(grant) => self.put(agent, &grant.with(made, renew_at)).map(|()| true),
            None => Ok(false),
        }
    }

    fn put(&self, agent: &str, grant: &Grant) -> Result<(), BridgeError> {
        let Some(path) = self.file(agent) else {
            return Err(BridgeError::refused(
                &self.0,
                "has no place for this name",
                "use letters and digits",
            ));
        };
        let _ = std::fs::remove_file(path.with_extension(TAKEN));
        let content = serde_json::to_vec(grant)
            .map_err(|error| BridgeError::Ledger { path: path.clone(), why: error.to_string() })?;
        private_file::write(&path, &content).map_err(BridgeError::io(&path, "write"))
    }

    /// Removes it, and gives what it was.
    pub fn take(&self, agent: &str) -> Result<Option<Grant>, BridgeError> {
        if !self.0.exists() {
            return Ok(None);
        }
        let _lock = self.lock()?;
        // One that cannot be read goes as well: whose it was is not known, and it is good for nothing.
        let grant = self.read(agent).unwrap_or_default();
        let Some(path) = self.file(agent) else { return Ok(None) };
        let mark = path.with_extension(TAKEN);
        private_file::write(&mark, b"").map_err(BridgeError::io(&mark, "write"))?;
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(grant),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BridgeError::io(&path, "remove")(error)),
        }
    }
}
