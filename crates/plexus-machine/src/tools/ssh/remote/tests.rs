use std::io::Write as _;
use std::process::{Command, Stdio};

use super::*;

/// Runs the opening line in a login shell, with the instructions as its input; returns the output and the exit.
fn played(shell: &str, program: &Program) -> (String, String, Option<i32>) {
    let mut child = Command::new(shell)
        .args(["-c", OPENING])
        .env("HOME", "/usr")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(shell_script(program, "n0nce").as_bytes()).unwrap();
    stdin.write_all(program.stdin.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

fn program(line: &str) -> Program {
    Program { line: line.to_owned(), cwd: None, stdin: String::new() }
}

#[test]
fn command_line_arrives_unchanged() {
    for shell in ["sh", "bash"] {
        for text in [
            "a b",
            "it's",
            "\"q\"",
            "$HOME `id` $(id)",
            "back\\slash \\n \\0101",
            "line\nbreak\ttab",
            "%s %b %%",
            "*?[a]",
            "-n",
            "é€😀",
            "!! !x",
            "a;b|c&d>e<f",
            "#no comment",
        ] {
            let argv = ["printf".to_owned(), "%s".to_owned(), text.to_owned()];
            let (stdout, stderr, code) = played(shell, &program(&shell_line(&argv)));
            assert_eq!((stdout.as_str(), code), (text, Some(0)), "{shell} {text:?}: {stderr}");
            assert!(stderr.starts_with("plexus-ready ") && stderr.ends_with("\nn0nce 0\n"), "{stderr:?}");
        }
    }
}

#[test]
fn stdin_folder_and_exit_code_belong_to_the_command() {
    let cat = Program {
        line: "pwd; cat; exit 3".to_owned(),
        cwd: Some("/tmp".to_owned()),
        stdin: "in\nput".to_owned(),
    };
    let (stdout, stderr, code) = played("sh", &cat);
    assert_eq!((stdout.as_str(), code), ("/tmp\nin\nput", Some(3)), "{stderr}");
    let home = Program { cwd: Some("~/lib".to_owned()), ..program("pwd") };
    assert_eq!(played("sh", &home).0, "/usr/lib\n");
    let nowhere = Program { cwd: Some("/no/such; echo x".to_owned()), ..program("echo ran") };
    let (stdout, stderr, _) = played("sh", &nowhere);
    assert_eq!(stdout, "");
    assert!(stderr.ends_with("\nn0nce cwd\n"), "{stderr}");
}
