//! The current signing key and its predecessors.
//!
//! In the data folder, `signing-key` contains the current key, and `retired-keys/KID` the public half of each
//! former one with its end of validity. Private halves of former keys are deleted.
//!
//! Invariants, also after `kill -9` at any time:
//! - There is exactly one signing key. A rotation first records the old key as a former one, and then renames
//!   the new key into place; after a crash in between, the old key stays current, and the record about it is
//!   removed at the next start.
//! - A key signs only after it is on disk, so that all signatures can be verified after a crash.
//! - Public halves are kept forever. Tokens of a key are rejected after its end, but a hub that starts after
//!   a crash can still verify the audit head that the key signed last.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use plexus_kit::clock::from_millis;
use plexus_kit::{Clock, hex, private_file};
use plexus_proto::Timestamp;
use plexus_proto::api::{Key, KeyState, RotatedKey};
use serde::{Deserialize, Serialize};

use crate::AuthError;
use crate::keys::{SigningKey, VerifyingKey};

const SIGNING_KEY: &str = "signing-key";
const RETIRED_KEYS: &str = "retired-keys";

pub struct KeyRing {
    folder: PathBuf,
    clock: Clock,
    keys: ArcSwap<Keys>,
    /// Serializes changes of the files.
    changing: Mutex<()>,
}

struct Keys {
    current: Arc<SigningKey>,
    /// All keys, including the current one.
    by_kid: HashMap<String, Arc<VerifyingKey>>,
}

/// A former key, as stored in its file.
#[derive(Serialize, Deserialize)]
struct RetiredKey {
    /// Hexadecimal.
    public_key: String,
    created_at: Timestamp,
    verifies_until: Timestamp,
}

impl KeyRing {
    /// Reads the keys of a data folder, or creates the first one.
    pub fn open(folder: &Path, clock: Clock) -> Result<Self, AuthError> {
        if let Some(ring) = Self::load(folder, clock.clone())? {
            let record = folder.join(RETIRED_KEYS).join(ring.current().kid());
            return match std::fs::remove_file(record) {
                // A crash occurred between the record and the new key.
                Ok(()) => Ok(ring),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ring),
                Err(error) => Err(unusable(error)),
            };
        }
        let (key, pkcs8) = SigningKey::generate(clock.now())?;
        private_file::write(&folder.join(SIGNING_KEY), &pkcs8).map_err(unusable)?;
        Self::new(folder, clock, key)
    }

    /// Reads the keys without changing anything; `None` if there is no signing key.
    pub fn load(folder: &Path, clock: Clock) -> Result<Option<Self>, AuthError> {
        let path = folder.join(SIGNING_KEY);
        let Some(pkcs8) = private_file::read(&path).map_err(unusable)? else { return Ok(None) };
        let written_at = modified_at(&path).map_err(unusable)?;
        let current = SigningKey::from_pkcs8(&pkcs8, written_at).map_err(|_| {
            AuthError::DamagedKey(format!("{} does not contain an Ed25519 key", path.display()))
        })?;
        Self::new(folder, clock, current).map(Some)
    }

    fn new(folder: &Path, clock: Clock, current: SigningKey) -> Result<Self, AuthError> {
        let mut by_kid = read_retired(&folder.join(RETIRED_KEYS))?;
        by_kid.insert(current.kid().to_owned(), current.verifying.clone());
        let keys = ArcSwap::from_pointee(Keys { current: Arc::new(current), by_kid });
        Ok(Self { folder: folder.to_owned(), clock, keys, changing: Mutex::default() })
    }

    pub(crate) fn current(&self) -> Arc<SigningKey> {
        self.keys.load().current.clone()
    }

    /// The key with this id, whether or not it is still accepted.
    pub(crate) fn find(&self, kid: &str) -> Option<Arc<VerifyingKey>> {
        self.keys.load().by_kid.get(kid).cloned()
    }

    /// The current key, followed by the others, newest first.
    #[must_use]
    pub fn list(&self) -> Vec<Key> {
        let keys = self.keys.load();
        let mut list: Vec<Key> = keys.by_kid.values().map(|key| self.describe(key)).collect();
        list.sort_by(|a, b| {
            let rank = |key: &Key| (key.verifies_until.is_some(), std::cmp::Reverse(key.created_at));
            rank(a).cmp(&rank(b)).then_with(|| a.kid.cmp(&b.kid))
        });
        list
    }

    fn describe(&self, key: &VerifyingKey) -> Key {
        let verifies_until = key.until();
        let state = match verifies_until {
            None => KeyState::Current,
            Some(until) if until > self.clock.now() => KeyState::Retiring,
            Some(_) => KeyState::Retired,
        };
        Key { kid: key.kid().to_owned(), state, created_at: key.created_at, verifies_until }
    }

    /// Starts signing with a new key; signatures of the old one are accepted until `until`. Blocks on disk
    /// IO.
    pub(crate) fn rotate(&self, until: Timestamp) -> Result<RotatedKey, AuthError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = self.keys.load_full();
        let old = &keys.current.verifying;
        let (new, pkcs8) = SigningKey::generate(self.clock.now())?;
        self.record_retired(old, until)?;
        private_file::write(&self.folder.join(SIGNING_KEY), &pkcs8).map_err(unusable)?;
        let mut by_kid = keys.by_kid.clone();
        by_kid.insert(new.kid().to_owned(), new.verifying.clone());
        let key = self.describe(&new.verifying);
        self.keys.store(Arc::new(Keys { current: Arc::new(new), by_kid }));
        // After the swap: a key must never end while it signs.
        old.end_at(until);
        Ok(RotatedKey { key, replaces: self.describe(old) })
    }

    /// Ends a former key now, unless it has already ended. `None` if there is no such key.
    pub(crate) fn retire(&self, kid: &str) -> Result<Option<Key>, AuthError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = self.keys.load_full();
        let Some(key) = keys.by_kid.get(kid) else { return Ok(None) };
        let now = self.clock.now();
        match key.until() {
            None => {
                let message = format!("the key {kid} is the current signing key and cannot be retired");
                return Err(AuthError::Conflict {
                    message,
                    hint: "Replace it with `plexus keys rotate --overlap 0`.",
                });
            }
            Some(until) if until <= now => {}
            Some(_) => {
                self.record_retired(key, now)?;
                key.end_at(now);
            }
        }
        Ok(Some(self.describe(key)))
    }

    /// Records a key as a former one.
    fn record_retired(&self, key: &VerifyingKey, until: Timestamp) -> Result<(), AuthError> {
        let folder = self.folder.join(RETIRED_KEYS);
        private_file::create_dir(&folder).map_err(unusable)?;
        let retired = RetiredKey {
            public_key: hex::encode(key.public()),
            created_at: key.created_at,
            verifies_until: until,
        };
        let json = serde_json::to_vec(&retired).map_err(|e| unusable(e.into()))?;
        private_file::write(&folder.join(key.kid()), &json).map_err(unusable)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("keys", &self.list()).finish_non_exhaustive()
    }
}

fn unusable(source: io::Error) -> AuthError {
    AuthError::Key { what: "cannot use the signing keys", source }
}

/// The file of the current key is written once, when the key is created.
fn modified_at(path: &Path) -> io::Result<Timestamp> {
    let modified = std::fs::metadata(path)?.modified()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
}

fn read_retired(folder: &Path) -> Result<HashMap<String, Arc<VerifyingKey>>, AuthError> {
    let files = match std::fs::read_dir(folder) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(error) => return Err(unusable(error)),
    };
    let mut keys = HashMap::new();
    for file in files {
        let path = file.map_err(unusable)?.path();
        // Skips half-written files after a crash; they have an extension.
        if path.extension().is_some() {
            continue;
        }
        let Some(json) = private_file::read(&path).map_err(unusable)? else { continue };
        let key = parse_retired(&json).filter(|key| path.file_name().is_some_and(|name| name == key.kid()));
        let key = key.ok_or_else(|| {
            AuthError::DamagedKey(format!(
                "{} does not contain the former key it is named after; restore it from a backup, or move it away: \
                 tokens signed by this key are then rejected",
                path.display()
            ))
        })?;
        keys.insert(key.kid().to_owned(), Arc::new(key));
    }
    Ok(keys)
}

fn parse_retired(json: &[u8]) -> Option<VerifyingKey> {
    let retired: RetiredKey = serde_json::from_slice(json).ok()?;
    let public = hex::decode(&retired.public_key)?;
    Some(VerifyingKey::new(&public, retired.created_at, Some(retired.verifies_until)))
}

#[cfg(test)]
mod tests;
