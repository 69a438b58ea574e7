//! What an allow list lets through, and what it does not.

use super::*;

fn rules(allow: &[&str], deny: &[&str]) -> CommandRules {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    CommandRules::new(&owned(allow), &owned(deny))
}

#[test]
fn an_allow_list_holds_against_the_ways_of_a_shell() {
    let rules = rules(&["git", "cargo test", "ls"], &[]);
    let allowed = [
        "git status",
        "git log -p 'a file; with signs'",
        "ls -la && git diff | git apply",
        "cargo test --workspace",
        "git status\nls",
        r#"git commit -m "a message, plain""#,
    ];
    for line in allowed {
        assert_eq!(rules.check_line(line), Ok(()), "{line}");
    }
    let refused = [
        "rm -rf .",
        "cargo publish",
        "cargo",
        "git status; rm -rf .",
        "git status && rm x",
        "git status || rm x",
        "git status | sh",
        "git status\nrm x",
        "git status & rm x",
        "git $(rm x)",
        "git `rm x`",
        "git \"$(rm x)\"",
        "git log > /etc/passwd",
        "git log >> x",
        "git < x",
        "PATH=. git status",
        "GIT_SSH_COMMAND=./x git fetch",
        "./git status",
        "/tmp/git status",
        "g\\it status",
        "git\\\n status",
        "eval git",
        "'eval' rm",
        ". ./git",
        "exec git",
        "if git; then rm x; fi",
        "(rm x)",
        "{ rm x; }",
        "!git",
        "# git\nrm x",
        "git ~root",
        "git 'open",
        "git status |& sh",
        "git\u{a0}status",
        "",
        "  ;  ",
    ];
    for line in refused {
        assert!(rules.check_line(line).is_err(), "{line}");
    }
    let argv = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(rules.check_argv(&argv(&["git", "log; rm x"])), Ok(()), "without a shell it is one argument");
    assert!(rules.check_argv(&argv(&["/tmp/git", "log"])).is_err());
    assert!(rules.check_argv(&argv(&["cargo", "test-all"])).is_err());
    assert!(rules.check_argv(&argv(&["git ", "log"])).is_err());
}

#[test]
fn a_deny_list_finds_a_command_wherever_it_stands_in_a_line() {
    let rules = rules(&["*"], &["sudo", "rm -rf /"]);
    let refused = [
        "sudo ls",
        "/usr/bin/sudo ls",
        "ls; sudo ls",
        "ls && 'sudo' ls",
        "x=$(sudo ls)",
        "env A=b sudo ls",
        "nohup sudo ls",
        "rm -rf /",
        "s\"u\"do ls",
    ];
    for line in refused {
        assert!(rules.check_line(line).is_err(), "{line}");
    }
    for line in ["ls", "rm -rf ./build", "pseudo ls"] {
        assert_eq!(rules.check_line(line), Ok(()), "{line}");
    }
    assert!(!rules.are_restricted());
}
