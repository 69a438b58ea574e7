//! The report of a warden about its program.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Limit;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The exit of the program itself; neither is set if it was not started.
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// The limit for which the warden or the kernel killed it.
    pub(crate) limit: Option<Limit>,
    /// The call was cancelled.
    pub(crate) cancelled: bool,
    pub(crate) duration: Duration,
    pub(crate) cpu: Duration,
    /// The highest memory use observed, in bytes.
    pub(crate) memory: u64,
    /// The highest number of concurrent processes observed.
    pub(crate) processes: u64,
    /// Processes that it left behind when it ended by itself, which were killed.
    pub(crate) left: u64,
    /// Processes that could not be killed.
    pub(crate) escaped: u64,
    /// The reason it was not started.
    pub(crate) failed: Option<String>,
}
