use super::escape::EscapeFilter;
use super::{JobEnd, JobState, job_end};

/// Filters the keys in one chunk and one by one; both must agree.
fn filter(keys: &str) -> (String, bool) {
    let (whole, one_by_one) = (EscapeFilter::default().filter(keys.as_bytes()), {
        let (mut escapes, mut passed, mut leaves) = (EscapeFilter::default(), Vec::new(), false);
        for key in keys.bytes() {
            if leaves {
                break;
            }
            let (more, leave) = escapes.filter(&[key]);
            passed.extend(more);
            leaves = leave;
        }
        (passed, leaves)
    });
    assert_eq!(whole, one_by_one, "{keys:?}");
    (String::from_utf8(whole.0).unwrap(), whole.1)
}

#[test]
fn tilde_dot_at_the_start_of_a_line_leaves() {
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
        assert_eq!(filter(keys), (passed.to_owned(), leaves), "{keys:?}");
    }
}

#[test]
fn exit_code_is_that_of_the_command() {
    let state = |exit_code, timed_out| JobState { exit_code, timed_out, note: None };
    let code = |state| job_end(state).map(|JobEnd { code, .. }| code).ok();
    assert_eq!(code(state(Some(0), false)), Some(0));
    assert_eq!(code(state(Some(255), false)), Some(255));
    assert_eq!(code(state(Some(137), false)), Some(137));
    assert_eq!(code(state(Some(143), true)), Some(124));
    assert_eq!(code(state(None, false)), None);
}
