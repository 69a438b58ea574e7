//! Finds the session of a call.
//!
//! A session is identified by its owner and a key. The owner is the subject of the token, so a client reaches only its
//! own sessions, whatever it claims about its thread.

use std::path::PathBuf;

use aws_lc_rs::digest;
use moka::sync::Cache;
use plexus_auth::Principal;
use plexus_kit::{Clock, hex, private_file};
use plexus_proto::{ErrorCode, SessionId};
use plexus_store::{Store, StoreError};

use crate::{CallError, Intent};

/// The number of cached session ids.
const MAX_REMEMBERED: u64 = 50_000;
const MAX_PART: usize = 120;
/// Longest path of a folder, in bytes.
const MAX_FOLDER: usize = 1_024;

/// The key of a session of an owner: `codex:<thread>`, `external:<client>:<id>`, `named:<name>` …
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey {
    key: String,
    client: Option<String>,
    folder: Option<String>,
}

impl SessionKey {
    /// Builds a key from its parts. Parts come from clients, so they are truncated and sanitized.
    ///
    /// ```
    /// use plexus_tools::SessionKey;
    ///
    /// assert_eq!(SessionKey::new("codex", &["0199-a"], None).as_str(), "codex:0199-a");
    /// let cleaned = SessionKey::new("named", &["my plan"], None);
    /// assert!(cleaned.as_str().starts_with("named:my_plan-"));
    /// ```
    #[must_use]
    pub fn new(kind: &str, parts: &[&str], client: Option<&str>) -> Self {
        let mut key = kind.to_owned();
        for part in parts {
            key.push(':');
            key.push_str(&clean(part));
        }
        Self { key, client: client.map(clean), folder: None }
    }

    /// The key of a client's conversation. It is the same whether the client sends the id with a call or the program
    /// that started the client does.
    ///
    /// ```
    /// use plexus_tools::SessionKey;
    ///
    /// assert_eq!(SessionKey::of_conversation("codex-mcp-client", "0199-a").as_str(), "codex:0199-a");
    /// assert_eq!(SessionKey::of_conversation("some-editor", "7").as_str(), "external:some-editor:7");
    /// ```
    #[must_use]
    pub fn of_conversation(client: &str, conversation: &str) -> Self {
        let family = ["codex", "claude"].into_iter().find(|family| client.starts_with(family));
        match family {
            Some(family) => Self::new(family, &[conversation], Some(client)),
            None => Self::new("external", &[client, conversation], Some(client)),
        }
    }

    /// Adds the working folder of the client. It is not part of the key. A path with control characters is left out.
    #[must_use]
    pub fn in_folder(mut self, folder: Option<&str>) -> Self {
        let fits =
            |path: &&str| (1..=MAX_FOLDER).contains(&path.len()) && !path.chars().any(char::is_control);
        self.folder = folder.filter(fits).map(str::to_owned);
        self
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.key
    }

    #[must_use]
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }
}

/// Sanitizes a part: printable ASCII without the separator, at most [`MAX_PART`] characters, never empty. A changed
/// part gets a hash of the original, so different names stay different.
fn clean(part: &str) -> String {
    let keep = |c: char| c.is_ascii_graphic() && c != ':';
    if !part.is_empty() && part.len() <= MAX_PART && part.chars().all(keep) {
        return part.to_owned();
    }
    let cleaned: String = part.chars().take(MAX_PART - 9).map(|c| if keep(c) { c } else { '_' }).collect();
    let hash = digest::digest(&digest::SHA256, part.as_bytes());
    format!("{cleaned}-{}", hex::encode(&hash.as_ref()[..4]))
}

#[derive(Debug)]
pub(crate) struct SessionDirectory {
    store: Store,
    clock: Clock,
    files: PathBuf,
    /// With the folder that was noted.
    ids: Cache<(String, String), (SessionId, Option<String>)>,
}

impl SessionDirectory {
    pub(crate) fn new(store: Store, clock: Clock, files: PathBuf) -> Self {
        Self { store, clock, files, ids: Cache::new(MAX_REMEMBERED) }
    }

    /// The caller's session, created if it does not exist.
    pub(crate) async fn open(&self, owner: &str, key: &SessionKey) -> Result<SessionId, StoreError> {
        let cached = (owner.to_owned(), key.key.clone());
        let cached_session = self.ids.get(&cached);
        if let Some((id, noted)) = &cached_session
            && (key.folder.is_none() || key.folder == *noted)
        {
            return Ok(*id);
        }
        let folder = key.folder.clone().or_else(|| cached_session.and_then(|(_, noted)| noted));
        let ((owner, key), now) = ((owner.to_owned(), key.clone()), self.clock.now());
        let id = self
            .store
            .write(move |conn| {
                Box::pin(async move {
                    let id = conn.ensure_session(&owner, &key.key, key.client.as_deref(), now).await?;
                    if let Some(folder) = &key.folder {
                        conn.note_session_folder(id, folder).await?;
                    }
                    Ok(id)
                })
            })
            .await?;
        self.ids.insert(cached, (id, folder));
        Ok(id)
    }

    /// The session that a tool argument names: by id, by key, or by a name that the caller has chosen.
    pub(crate) async fn named(
        &self,
        principal: &Principal,
        name: &str,
        intent: Intent,
    ) -> Result<SessionId, CallError> {
        let owner = principal.subject();
        let unknown = || {
            CallError::new(
                ErrorCode::NotFound,
                format!("No session {:?}", name.chars().take(100).collect::<String>()),
            )
            .hint("Use the id of one of your sessions, or any name: the first write under a name creates its session.")
        };
        if let Ok(id) = name.parse::<SessionId>() {
            let session = self.store.read_committed().await?.session(id).await?;
            return match session {
                Some(session) if session.owner == owner || principal.is_admin() => Ok(id),
                _ => Err(unknown()),
            };
        }
        if name.contains(':') {
            let session = self.store.read_committed().await?.session_by_key(owner, name).await?;
            return session.map(|session| session.id).ok_or_else(unknown);
        }
        let key = SessionKey::new("named", &[name], None);
        match intent {
            Intent::Write => Ok(self.open(owner, &key).await?),
            Intent::Read => {
                let session = self.store.read_committed().await?.session_by_key(owner, key.as_str()).await?;
                // A name without any writes reads as empty: this id belongs to no session.
                Ok(session.map_or_else(SessionId::new, |session| session.id))
            }
        }
    }

    pub(crate) fn files_dir(&self, session: SessionId) -> std::io::Result<PathBuf> {
        let path = self.files.join(session.to_string()).join("files");
        private_file::create_dir(&path)?;
        Ok(path)
    }
}
