//! The key that seals what the hub keeps for its own use in a database: credentials of the servers behind it.
//!
//! It is the file `sealing-key` of the data folder, beside the key that signs. What is sealed says where it belongs
//! (whose it is, and which part of it): moved to another place, it does not open. Whoever has the database and not this
//! file has nothing, and a hub that lost the file has to be given its credentials anew.

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
    /// Reads the key of a data folder, or makes it.
    pub fn open(folder: &Path) -> Result<Self, AuthError> {
        let path = folder.join(SEALING_KEY);
        let unusable = |source| AuthError::Key { what: "the sealing key cannot be used", source };
        let bytes = match private_file::read(&path).map_err(unusable)? {
            Some(bytes) => bytes,
            None => {
                let mut bytes = [0; BYTES];
                rand::fill(&mut bytes)
                    .map_err(|_| AuthError::DamagedSealingKey("no randomness to make one".to_owned()))?;
                private_file::write(&path, &bytes).map_err(unusable)?;
                bytes.to_vec()
            }
        };
        let key = RandomizedNonceKey::new(&AES_256_GCM, &bytes);
        key.map(Self).map_err(|_| {
            AuthError::DamagedSealingKey(format!("{} does not hold a key of {BYTES} bytes", path.display()))
        })
    }

    /// Seals a text for its place.
    pub fn seal(&self, place: &[&str], text: &Secret) -> Result<String, AuthError> {
        let mut sealed = text.expose_secret().as_bytes().to_vec();
        let nonce = self.0.seal_in_place_append_tag(Aad::from(label(place)), &mut sealed);
        let nonce = nonce.map_err(|_| AuthError::DamagedSealingKey("it does not seal".to_owned()))?;
        Ok(hex::encode(nonce.as_ref()) + &hex::encode(&sealed))
    }

    /// What was sealed for this place with this key; nothing else opens.
    #[must_use]
    pub fn open_sealed(&self, place: &[&str], sealed: &str) -> Option<Secret> {
        let mut bytes = hex::decode(sealed)?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.0.open_in_place(nonce, Aad::from(label(place)), sealed).ok()?;
        std::str::from_utf8(opened).ok().map(Secret::from)
    }
}

/// Each part with its length in front: no two places have the same.
fn label(place: &[&str]) -> Vec<u8> {
    let mut label = Vec::new();
    for part in place {
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
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_sealed_opens_in_its_place_only_and_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let text = Secret::from("a refresh token");
        let sealed = SealingKey::open(folder.path()).unwrap().seal(&["docs", "grant"], &text).unwrap();
        assert!(!sealed.contains(&hex::encode(b"refresh")), "{sealed}");
        let key = SealingKey::open(folder.path()).unwrap();
        let opened = |place: &[&str], sealed: &str| {
            key.open_sealed(place, sealed).map(|text| text.expose_secret().to_owned())
        };
        assert_eq!(opened(&["docs", "grant"], &sealed).as_deref(), Some("a refresh token"));
        for place in [&["mail", "grant"][..], &["docs", "client"], &["docsgrant"], &["docs", "gran", "t"]] {
            assert_eq!(opened(place, &sealed), None, "{place:?}");
        }
        let mut damaged = sealed.clone().into_bytes();
        damaged[30] = if damaged[30] == b'0' { b'1' } else { b'0' };
        assert_eq!(opened(&["docs", "grant"], std::str::from_utf8(&damaged).unwrap()), None);
        assert_eq!(opened(&["docs", "grant"], "00"), None);
        assert_ne!(key.seal(&["docs", "grant"], &text).unwrap(), sealed, "each time with another nonce");

        let other = tempfile::tempdir().unwrap();
        let stranger = SealingKey::open(other.path()).unwrap();
        assert!(stranger.open_sealed(&["docs", "grant"], &sealed).is_none());
    }

    #[test]
    fn the_key_is_its_owners_and_a_damaged_one_is_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        SealingKey::open(folder.path()).unwrap();
        let path = folder.path().join(SEALING_KEY);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        private_file::write(&path, b"short").unwrap();
        let error = SealingKey::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("sealing-key"), "{error}");
    }
}
