//! The hub's Ed25519 keys: signing keys for tokens and the audit head, and their public halves.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use aws_lc_rs::digest;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use plexus_kit::clock::from_millis;
use plexus_kit::hex;
use plexus_proto::Timestamp;

use crate::AuthError;

/// End of a key that is still signing: never.
const NO_END: i64 = i64::MAX;

/// The public half of a key. Shared by every principal that was authenticated with it, so that all of them
/// see its end immediately.
pub(crate) struct VerifyingKey {
    /// Key id, which identifies the key in everything it signs.
    kid: String,
    public: Vec<u8>,
    pub(crate) decoding: DecodingKey,
    pub(crate) created_at: Timestamp,
    /// End of validity in milliseconds; [`NO_END`] while the key signs.
    until: AtomicI64,
}

impl VerifyingKey {
    pub(crate) fn new(public: &[u8], created_at: Timestamp, until: Option<Timestamp>) -> Self {
        Self {
            kid: hex::encode(&digest::digest(&digest::SHA256, public).as_ref()[..8]),
            public: public.to_vec(),
            decoding: DecodingKey::from_ed_der(public),
            created_at,
            until: AtomicI64::new(until.map_or(NO_END, |until| until.as_millisecond())),
        }
    }

    pub(crate) fn kid(&self) -> &str {
        &self.kid
    }

    pub(crate) fn public(&self) -> &[u8] {
        &self.public
    }

    pub(crate) fn accepts_at(&self, now: Timestamp) -> bool {
        now.as_millisecond() < self.until.load(Ordering::Relaxed)
    }

    /// `None` while the key signs.
    pub(crate) fn until(&self) -> Option<Timestamp> {
        Some(self.until.load(Ordering::Relaxed)).filter(|until| *until != NO_END).map(from_millis)
    }

    pub(crate) fn end_at(&self, until: Timestamp) {
        self.until.store(until.as_millisecond(), Ordering::Relaxed);
    }

    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.public).verify(message, signature).is_ok()
    }
}

impl PartialEq for VerifyingKey {
    fn eq(&self, other: &Self) -> bool {
        self.public == other.public
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyingKey")
            .field("kid", &self.kid)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// A signing key with its public half.
pub(crate) struct SigningKey {
    pair: Ed25519KeyPair,
    pub(crate) encoding: EncodingKey,
    pub(crate) verifying: Arc<VerifyingKey>,
}

impl SigningKey {
    /// Generates a key; also returns its encoded form for storage.
    pub(crate) fn generate(created_at: Timestamp) -> Result<(Self, Vec<u8>), AuthError> {
        let generated = || -> Result<Vec<u8>, aws_lc_rs::error::Unspecified> {
            Ok(Ed25519KeyPair::generate()?.to_pkcs8()?.as_ref().to_vec())
        };
        let pkcs8 = generated().map_err(|_| {
            AuthError::DamagedKey("cannot generate a key: no randomness available".to_owned())
        })?;
        let key = Self::from_pkcs8(&pkcs8, created_at)
            .map_err(|_| AuthError::DamagedKey("a generated key cannot be parsed".to_owned()))?;
        Ok((key, pkcs8))
    }

    pub(crate) fn from_pkcs8(
        pkcs8: &[u8],
        created_at: Timestamp,
    ) -> Result<Self, aws_lc_rs::error::KeyRejected> {
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8)?;
        let verifying = Arc::new(VerifyingKey::new(pair.public_key().as_ref(), created_at, None));
        Ok(Self { encoding: EncodingKey::from_ed_der(pkcs8), verifying, pair })
    }

    pub(crate) fn kid(&self) -> &str {
        self.verifying.kid()
    }

    pub(crate) fn header(&self) -> Header {
        Header { kid: Some(self.kid().to_owned()), ..Header::new(Algorithm::EdDSA) }
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("kid", &self.kid()).finish_non_exhaustive()
    }
}
