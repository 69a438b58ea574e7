use super::escape::Escapes;
use super::{Ended, State, ended};

/// However the keys are cut into pieces.
fn pass(keys: &str) -> (String, bool) {
    let (whole, one_by_one) = (Escapes::default().pass(keys.as_bytes()), {
        let (mut escapes, mut passed, mut leaves) = (Escapes::default(), Vec::new(), false);
        for key in keys.bytes() {
            if leaves {
                break;
            }
            let (more, leave) = escapes.pass(&[key]);
            passed.extend(more);
            leaves = leave;
        }
        (passed, leaves)
    });
    assert_eq!(whole, one_by_one, "{keys:?}");
    (String::from_utf8(whole.0).unwrap(), whole.1)
}

#[test]
fn only_a_tilde_and_a_dot_at_the_beginning_of_a_line_leave() {
    for (keys, passed, leaves) in [
        ("ls\r", "ls\r", false),
        ("~.", "", true),
        ("ls\r~.more", "ls\r", true),
        ("ls\n~.", "ls\n", true),
        ("cd ~.\r", "cd ~.\r", false),
        ("~~.\r", "~.\r", false),
        ("~/bin\r", "~/bin\r", false),
        ("~\r~.", "~\r", true),
    ] {
        assert_eq!(pass(keys), (passed.to_owned(), leaves), "{keys:?}");
    }
}

#[test]
fn an_exit_code_is_the_commands_own() {
    let state = |exit_code, timed_out| State { exit_code, timed_out, note: None };
    let code = |state| ended(state).map(|Ended { code, .. }| code).ok();
    assert_eq!(code(state(Some(0), false)), Some(0));
    assert_eq!(code(state(Some(255), false)), Some(255));
    assert_eq!(code(state(Some(137), false)), Some(137));
    assert_eq!(code(state(Some(143), true)), Some(124));
    assert_eq!(code(state(None, false)), None);
}
