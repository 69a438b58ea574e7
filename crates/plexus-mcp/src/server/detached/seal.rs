//! `requestState`: an encrypted ticket for one answer to one call, which only this process can create and read.
//!
//! It contains its owner, the digest of its request, its expiry and the number of the answer. All of them are checked
//! when the client sends it back.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plexus_kit::hex;
use serde::{Deserialize, Serialize};

use super::StateError;

const VERSION: &str = "v1";
const PURPOSE: &[u8] = b"plexus requestState v1";

/// The content of a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ticket {
    /// The parked call.
    #[serde(rename = "p")]
    pub(super) id: u64,
    /// The number of the answer it is for.
    #[serde(rename = "n")]
    pub(super) answer_number: u64,
    /// Subject of the principal that made the call.
    #[serde(rename = "s")]
    pub(super) owner: String,
    /// Milliseconds since the start of the process.
    #[serde(rename = "e")]
    pub(super) expires: u64,
    #[serde(rename = "d")]
    pub(super) digest: [u8; 32],
}

/// Encrypts tickets. Its key lives as long as the parked calls: no longer than the process.
pub(super) struct Seal {
    key: Option<RandomizedNonceKey>,
    /// Distinguishes a state from before a restart from a forged one. Both are refused.
    boot: String,
}

impl Seal {
    pub(super) fn new() -> Self {
        let key = rand::random::<[u8; 32]>();
        // A key of this length is always accepted; otherwise no call would be parked.
        let key = RandomizedNonceKey::new(&AES_256_GCM, &key).ok();
        Self { key, boot: hex::encode(&rand::random::<[u8; 8]>()) }
    }

    /// None if encryption fails, which does not happen.
    pub(super) fn close(&self, ticket: &Ticket) -> Option<String> {
        let mut sealed = serde_json::to_vec(ticket).ok()?;
        let nonce = self.key.as_ref()?.seal_in_place_append_tag(Aad::from(PURPOSE), &mut sealed).ok()?;
        let bytes = [nonce.as_ref().as_slice(), &sealed].concat();
        Some(format!("{VERSION}.{}.{}", self.boot, URL_SAFE_NO_PAD.encode(bytes)))
    }

    pub(super) fn open(&self, state: &str) -> Result<Ticket, StateError> {
        let (boot, sealed) = state
            .strip_prefix(VERSION)
            .and_then(|rest| rest.strip_prefix('.')?.split_once('.'))
            .ok_or(StateError::Changed)?;
        if boot != self.boot {
            return Err(StateError::Lost);
        }
        self.decrypt(sealed).ok_or(StateError::Changed)
    }

    fn decrypt(&self, sealed: &str) -> Option<Ticket> {
        let mut bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let ticket = self.key.as_ref()?.open_in_place(nonce, Aad::from(PURPOSE), sealed).ok()?;
        serde_json::from_slice(ticket).ok()
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

#[cfg(test)]
mod tests;
