//! The hub's Ed25519 key: signs tokens and the head of the audit.

use std::fmt;
use std::io;
use std::path::Path;

use aws_lc_rs::digest;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use plexus_kit::{hex, private_file};

use crate::AuthError;

pub struct SigningKey {
    pair: Ed25519KeyPair,
    pub(crate) encoding: EncodingKey,
    pub(crate) decoding: DecodingKey,
    /// Names the key in what it signs, so that a later one can be told from it.
    kid: String,
}

impl SigningKey {
    /// Reads the key, or makes one where there is none.
    pub fn load_or_create(path: &Path) -> Result<Self, AuthError> {
        let failed = |source: io::Error| AuthError::Key { what: "cannot use the signing key", source };
        if let Some(key) = Self::load(path)? {
            return Ok(key);
        }
        let generated = || -> Result<Vec<u8>, aws_lc_rs::error::Unspecified> {
            Ok(Ed25519KeyPair::generate()?.to_pkcs8()?.as_ref().to_vec())
        };
        let pkcs8 = generated().map_err(|_| AuthError::DamagedKey("no randomness to make one".to_owned()))?;
        private_file::write(path, &pkcs8).map_err(failed)?;
        Self::from_pkcs8(&pkcs8).map_err(|_| AuthError::DamagedKey("a fresh key does not parse".to_owned()))
    }

    /// Reads the key; none where there is no such file.
    pub fn load(path: &Path) -> Result<Option<Self>, AuthError> {
        let failed = |source: io::Error| AuthError::Key { what: "cannot use the signing key", source };
        let Some(pkcs8) = private_file::read(path).map_err(failed)? else { return Ok(None) };
        let damaged = |_| AuthError::DamagedKey(format!("{} does not hold an Ed25519 key", path.display()));
        Self::from_pkcs8(&pkcs8).map(Some).map_err(damaged)
    }

    fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, aws_lc_rs::error::KeyRejected> {
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8)?;
        let public = pair.public_key().as_ref();
        let kid = hex::encode(&digest::digest(&digest::SHA256, public).as_ref()[..8]);
        Ok(Self {
            encoding: EncodingKey::from_ed_der(pkcs8),
            decoding: DecodingKey::from_ed_der(public),
            kid,
            pair,
        })
    }

    #[must_use]
    pub fn kid(&self) -> &str {
        &self.kid
    }

    pub(crate) fn header(&self) -> Header {
        Header { kid: Some(self.kid.clone()), ..Header::new(Algorithm::EdDSA) }
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }

    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.pair.public_key().as_ref()).verify(message, signature).is_ok()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("kid", &self.kid).finish_non_exhaustive()
    }
}
