//! Details in error messages that only administrators may see: output of the process, and the configuration
//! of the machine.
//!
//! They stand at the end of a message, after one of these separators, so that they can be removed.

/// Precedes the last line of a process's standard error.
const LAST_LINE: &str = "; the last line of its standard error: ";
<<<<<<< HEAD
/// In front of the last thing that a server sent and that is no message.
const LAST_SENT: &str = "; the last that it sent is no message of MCP: ";
=======
/// Precedes the last output of a server that is not an MCP message.
const LAST_SENT: &str = "; its last output is not an MCP message: ";
/// Precedes the path in which a program was searched.
const SEARCHED: &str = "; PATH is ";
>>>>>>> w-t3

pub(super) fn with_last_line(what: &str, line: &str) -> String {
    format!("{what}{LAST_LINE}{line}")
}

pub(super) fn with_last_sent(what: &str, line: &str) -> String {
    format!("{what}{LAST_SENT}{line}")
}

<<<<<<< HEAD
/// A message as it may be told to whoever calls a tool, or sees that there is one: its beginning.
=======
pub(super) fn with_path(what: &str, path: &str) -> String {
    format!("{what}{SEARCHED}{path}")
}

/// The part of a message that callers of tools may see.
>>>>>>> w-t3
#[must_use]
pub fn for_callers(message: &str) -> &str {
    let end = [LAST_LINE, LAST_SENT].iter().filter_map(|detail| message.find(detail)).min();
    &message[..end.unwrap_or(message.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
<<<<<<< HEAD
    fn callers_are_told_what_happened_and_not_what_the_process_said_of_it() {
        let told = with_last_line("the process ended (exit status: 1)", "no licence for ann in /home/ann");
        assert_eq!(for_callers(&told), "the process ended (exit status: 1)");
        let silent = with_last_sent("the server did not say who it is", "Welcome, ann");
        assert_eq!(for_callers(&silent), "the server did not say who it is");
=======
    fn callers_do_not_see_details() {
        let message =
            with_last_line("the process ended (exit status: 1)", "no licence for ann; PATH is /home/ann");
        assert_eq!(for_callers(&message), "the process ended (exit status: 1)");
        assert_eq!(
            for_callers(&with_path("there is no program `x`", "/home/ann/bin")),
            "there is no program `x`"
        );
        let silent = with_last_sent("the server did not complete the handshake", "Welcome, ann");
        assert_eq!(for_callers(&silent), "the server did not complete the handshake");
>>>>>>> w-t3
        assert_eq!(for_callers("plain"), "plain");
    }
}
