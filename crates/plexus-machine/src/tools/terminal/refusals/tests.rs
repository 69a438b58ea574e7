use super::*;

#[test]
fn refusals_of_shells_and_runtimes_are_recognized() {
    for output in [
        "mkdir: cannot create directory '/home/ann/new': Permission denied",
        "zsh: permission denied: /home/ann/new",
        "open /home/ann/new: operation not permitted",
        "Error: EACCES: permission denied, open '/home/ann/new'",
        "touch: cannot touch 'a': Read-only file system",
    ] {
        assert!(reports_refusal(output), "{output}");
    }
    assert!(!reports_refusal("mkdir: cannot create directory 'a': No such file or directory"));
}
