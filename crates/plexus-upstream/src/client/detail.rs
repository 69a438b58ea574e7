//! Details in error messages that only administrators may see: output of the process, and the configuration
//! of the machine.
//!
//! They stand at the end of a message, after one of these separators, so that they can be removed.

/// Precedes the last line of a process's standard error.
const LAST_LINE: &str = "; the last line of its standard error: ";
/// Precedes the last output of a server that is not an MCP message.
const LAST_SENT: &str = "; its last output is not an MCP message: ";

pub(super) fn with_last_line(message: &str, line: &str) -> String {
    format!("{message}{LAST_LINE}{line}")
}

pub(super) fn with_last_sent(message: &str, line: &str) -> String {
    format!("{message}{LAST_SENT}{line}")
}

/// The part of a message that callers of tools may see.
#[must_use]
pub fn for_callers(message: &str) -> &str {
    let end = [LAST_LINE, LAST_SENT].iter().filter_map(|detail| message.find(detail)).min();
    &message[..end.unwrap_or(message.len())]
}

#[cfg(test)]
mod tests;
