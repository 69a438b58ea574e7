use super::*;

#[test]
fn callers_do_not_see_details() {
    let message = with_last_line("the process ended (exit status: 1)", "no licence for ann in /home/ann");
    assert_eq!(for_callers(&message), "the process ended (exit status: 1)");
    let silent = with_last_sent("the server did not complete the handshake", "Welcome, ann");
    assert_eq!(for_callers(&silent), "the server did not complete the handshake");
    assert_eq!(for_callers("plain"), "plain");
}
