//! What a message says to those who run the hub, and to nobody else: words of the process, and how the machine is set up.
//!
//! It stands at the end of a message, behind one of these, so that it can be left out.

/// In front of the last thing that a process wrote to its standard error.
const LAST_LINE: &str = "; the last line of its standard error: ";
/// In front of the last thing that a server sent and that is no message.
const LAST_SENT: &str = "; the last that it sent is no message of MCP: ";

pub(super) fn with_last_line(what: &str, line: &str) -> String {
    format!("{what}{LAST_LINE}{line}")
}

pub(super) fn with_last_sent(what: &str, line: &str) -> String {
    format!("{what}{LAST_SENT}{line}")
}

/// A message as it may be told to whoever calls a tool, or sees that there is one: its beginning.
#[must_use]
pub fn for_callers(message: &str) -> &str {
    let end = [LAST_LINE, LAST_SENT].iter().filter_map(|detail| message.find(detail)).min();
    &message[..end.unwrap_or(message.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_told_what_happened_and_not_what_the_process_said_of_it() {
        let told = with_last_line("the process ended (exit status: 1)", "no licence for ann in /home/ann");
        assert_eq!(for_callers(&told), "the process ended (exit status: 1)");
        let silent = with_last_sent("the server did not say who it is", "Welcome, ann");
        assert_eq!(for_callers(&silent), "the server did not say who it is");
        assert_eq!(for_callers("plain"), "plain");
    }
}
