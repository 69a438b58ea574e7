//! The source of all randomness of a run, so that a run can be repeated.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use rand::SeedableRng;
use rand::rngs::StdRng;

/// Variable that repeats a run: the seed printed by the failed run.
const SEED: &str = "PLEXUS_TEST_SEED";
/// Variable that repeats a single round.
const ROUND: &str = "PLEXUS_TEST_ROUND";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// The seed from the environment, or a fresh one.
    pub fn choose() -> Self {
        // `RandomState` has different keys in every process.
        Self(number(SEED).unwrap_or_else(|| RandomState::new().hash_one(0) >> 32))
    }

    /// The random generator of one round, independent of the previous rounds.
    pub fn round(self, round: u64) -> StdRng {
        StdRng::seed_from_u64(self.0.wrapping_mul(1_000_003).wrapping_add(round))
    }

    /// The rounds to run: all, or the one selected by the environment.
    pub(super) fn rounds(count: u64) -> std::ops::Range<u64> {
        number(ROUND).map_or(0..count, |round| round..round + 1)
    }

    /// The variables that repeat a single round.
    pub(super) fn repeat(self, round: u64) -> String {
        format!("{self} {ROUND}={round}")
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SEED}={}", self.0)
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var_os(variable)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{variable} must be a number, not {text:?}")))
}
