//! The key that encrypts secrets in the database for the hub's own use: credentials of upstream servers.
//!
//! It is the file `sealing-key` in the data folder, beside the signing key. Sealed text is bound to its
//! location (owner and field) as associated data, so it cannot be opened elsewhere. The database alone,
//! without this file, reveals nothing, and a hub that lost the file needs all credentials again.

use std::fmt;
use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use plexus_kit::{ExposeSecret, Secret, hex, private_file};

use crate::AuthError;

/// Name of the file.
pub const SEALING_KEY: &str = "sealing-key";
const BYTES: usize = 32;

pub struct SealingKey(RandomizedNonceKey);

impl SealingKey {
    /// Reads the key of a data folder, or creates it.
    pub fn open(folder: &Path) -> Result<Self, AuthError> {
        let path = folder.join(SEALING_KEY);
        let unusable = |source| AuthError::Key { what: "cannot use the sealing key", source };
        let bytes = match private_file::read(&path).map_err(unusable)? {
            Some(bytes) => bytes,
            None => {
                let mut bytes = [0; BYTES];
                rand::fill(&mut bytes).map_err(|_| {
                    AuthError::DamagedSealingKey("cannot generate a key: no randomness available".to_owned())
                })?;
                private_file::write(&path, &bytes).map_err(unusable)?;
                bytes.to_vec()
            }
        };
        let key = RandomizedNonceKey::new(&AES_256_GCM, &bytes);
        key.map(Self).map_err(|_| {
            AuthError::DamagedSealingKey(format!(
                "{} does not contain a key of {BYTES} bytes",
                path.display()
            ))
        })
    }

    /// Encrypts a text, bound to its location.
    pub fn seal(&self, context: &[&str], text: &Secret) -> Result<String, AuthError> {
        let mut sealed = text.expose_secret().as_bytes().to_vec();
        let nonce = self.0.seal_in_place_append_tag(Aad::from(label(context)), &mut sealed);
        let nonce = nonce.map_err(|_| AuthError::DamagedSealingKey("encryption failed".to_owned()))?;
        Ok(hex::encode(nonce.as_ref()) + &hex::encode(&sealed))
    }

    /// Decrypts a text sealed with this key for this location; `None` for any other text.
    #[must_use]
    pub fn open_sealed(&self, context: &[&str], sealed: &str) -> Option<Secret> {
        let mut bytes = hex::decode(sealed)?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.0.open_in_place(nonce, Aad::from(label(context)), sealed).ok()?;
        std::str::from_utf8(opened).ok().map(Secret::from)
    }
}

/// Length-prefixes each part, so that different locations have different labels.
fn label(context: &[&str]) -> Vec<u8> {
    let mut label = Vec::new();
    for part in context {
        label.extend_from_slice(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        label.extend_from_slice(part.as_bytes());
    }
    label
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey")
    }
}

#[cfg(test)]
mod tests;
