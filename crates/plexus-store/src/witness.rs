//! Whoever signs for the hub, outside the database.

use std::fmt;

/// Signs what must not be forged by someone who can write to the database, and knows its signatures
/// again, also those of former keys.
pub trait Witness: fmt::Debug + Send + Sync {
    fn sign(&self, statement: &str) -> String;
    fn vouches(&self, statement: &str, signature: &str) -> bool;
}

/// Vouches for nothing: for a chain of which nothing was removed.
#[derive(Debug, Clone, Copy)]
pub struct NoWitness;

impl Witness for NoWitness {
    fn sign(&self, _: &str) -> String {
        String::new()
    }

    fn vouches(&self, _: &str, _: &str) -> bool {
        false
    }
}
