//! The signed head of the audit chain, in a file beside the database.
//!
//! Anyone who can modify the table can recompute its hashes, but cannot sign the resulting head. The file
//! lags behind the chain by at most [`PAUSE`], so only entries written immediately before a crash can be
//! truncated unnoticed.
//!
//! A head is signed with the current key, and verified with the key that it names, including retired keys:
//! after a crash immediately following a rotation, the file still carries the signature of the previous key.
//! A stolen retired key could sign a head, but placing it here requires write access to this folder, which
//! would expose the current key as well.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plexus_kit::{Durability, hex, private_file};
use plexus_proto::api::AuditHead;
use plexus_store::Witness;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::KeyRing;

/// Minimum interval between two writes of the file: signing and replacing it costs as much as recording
/// several calls.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct AuditAnchor {
    path: PathBuf,
    keys: Arc<KeyRing>,
    durability: Durability,
}

#[derive(Serialize, Deserialize)]
struct SignedHead {
    #[serde(flatten)]
    head: AuditHead,
    kid: String,
    /// Hexadecimal.
    signature: String,
}

impl AuditAnchor {
    #[must_use]
    pub fn new(path: PathBuf, keys: Arc<KeyRing>, durability: Durability) -> Self {
        Self { path, keys, durability }
    }

    /// The most recently signed head; `None` if there is none yet. `Err` describes what is wrong with the
    /// file.
    pub fn read(&self) -> Result<Option<AuditHead>, String> {
        let shown = self.path.display();
        let Some(bytes) = private_file::read(&self.path).map_err(|e| e.to_string())? else { return Ok(None) };
        let signed: SignedHead =
            serde_json::from_slice(&bytes).map_err(|e| format!("{shown} is not a signed head: {e}"))?;
        let signature =
            hex::decode(&signed.signature).ok_or_else(|| format!("{shown}: the signature is not hex"))?;
        let Some(key) = self.keys.find(&signed.kid) else {
            return Err(format!("{shown} was signed with another key ({})", signed.kid));
        };
        if !key.verify(&message(&signed.head), &signature) {
            return Err(format!("{shown}: the signature is invalid; the file was modified"));
        }
        Ok(Some(signed.head))
    }

    /// Renames a file that contradicts the table, to keep it as evidence; `None` if there is no file.
    pub fn set_aside(&self, suffix: &str) -> std::io::Result<Option<PathBuf>> {
        let target = self.path.with_extension(format!("head.{suffix}"));
        match std::fs::rename(&self.path, &target) {
            Ok(()) => Ok(Some(target)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Signs the newest head, at most once per [`PAUSE`], until the channel closes; includes the last head.
    pub async fn follow(&self, mut heads: watch::Receiver<Option<AuditHead>>) {
        let (mut written, mut more) = (None, true);
        loop {
            let head = heads.borrow_and_update().clone();
            if head == written && more {
                more = heads.changed().await.is_ok();
                continue;
            }
            if head != written
                && let Some(head) = &head
            {
                match self.write(head) {
                    Ok(()) => written = Some(head.clone()),
                    Err(error) => tracing::error!(%error, "cannot write the signed audit head"),
                }
            }
            if !more {
                return;
            }
            // Returns early only when the channel closes, so that shutdown is not delayed.
            more = tokio::time::timeout(PAUSE, heads.wait_for(|_| false)).await.is_err();
        }
    }

    /// The content of the file for this head.
    pub fn signed(&self, head: &AuditHead) -> std::io::Result<Vec<u8>> {
        let key = self.keys.current();
        let signature = hex::encode(&key.sign(&message(head)));
        Ok(serde_json::to_vec(&SignedHead { head: head.clone(), kid: key.kid().to_owned(), signature })?)
    }

    /// Signs and writes a head immediately.
    pub fn write(&self, head: &AuditHead) -> std::io::Result<()> {
        let bytes = self.signed(head)?;
        match self.durability {
            Durability::Power => private_file::write(&self.path, &bytes),
            Durability::Process => private_file::write_unsynced(&self.path, &bytes),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Witness for AuditAnchor {
    fn sign(&self, statement: &str) -> String {
        let key = self.keys.current();
        format!("{}:{}", key.kid(), hex::encode(&key.sign(statement.as_bytes())))
    }

    fn is_valid_signature(&self, statement: &str, signature: &str) -> bool {
        let Some((kid, signature)) = signature.split_once(':') else { return false };
        let (key, signature) = (self.keys.find(kid), hex::decode(signature));
        key.zip(signature).is_some_and(|(key, signature)| key.verify(statement.as_bytes(), &signature))
    }
}

fn message(head: &AuditHead) -> Vec<u8> {
    format!("plexus audit head\0{}\0{}\0{}", head.hub, head.n, head.hash).into_bytes()
}
