//! What a warden tells of the program that it watched.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Limit;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// How the program itself ended; none of both where it was not begun.
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Why the warden, or the kernel, ended it.
    pub(crate) limit: Option<Limit>,
    /// Whoever wanted it wants it no more.
    pub(crate) cancelled: bool,
    pub(crate) duration: Duration,
    pub(crate) cpu: Duration,
    /// The most memory that was seen, in bytes.
    pub(crate) memory: u64,
    /// The most processes that were seen at once.
    pub(crate) processes: u64,
    /// Processes that it left behind when it ended by itself, and that were ended.
    pub(crate) left: u64,
    /// Processes that could not be ended.
    pub(crate) escaped: u64,
    /// Why it was not begun.
    pub(crate) failed: Option<String>,
}
