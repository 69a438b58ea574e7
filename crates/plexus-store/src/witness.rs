//! The hub's signer, which is outside the database.

use std::fmt;

/// Signs statements that must not be forged by someone with write access to the database, and verifies its
/// signatures, including those of former keys.
pub trait Witness: fmt::Debug + Send + Sync {
    fn sign(&self, statement: &str) -> String;
    fn is_valid_signature(&self, statement: &str, signature: &str) -> bool;
}

/// Verifies nothing: for a chain without removed entries.
#[derive(Debug, Clone, Copy)]
pub struct NoWitness;

impl Witness for NoWitness {
    fn sign(&self, _: &str) -> String {
        String::new()
    }

    fn is_valid_signature(&self, _: &str, _: &str) -> bool {
        false
    }
}
