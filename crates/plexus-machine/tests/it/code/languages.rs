//! The environment of code in each language, and the error for a missing language.

use plexus_proto::ErrorCode;
use serde_json::json;

use super::{nothing_is_left, python, small};
use crate::workbench::Workbench;

#[tokio::test]
async fn python_runs_with_arguments_input_and_variables() {
    let bench = small().await;
    let code = "
import os, sys
import helper
print(helper.word, sys.argv[1:], sys.stdin.read(), os.environ['GREETING'])
print('to stderr', file=sys.stderr)
sys.exit(3)
";
    let answer = bench
        .code(json!({
            "language": "python", "code": code, "args": ["a b", "*", "-x"], "stdin": "é in", "env": { "GREETING": "hi" },
            "files": [{ "name": "helper.py", "text": "word = 'helped'" }],
        }))
        .await
        .unwrap();
    assert_eq!(answer["stdout"]["text"], "helped ['a b', '*', '-x'] é in hi\n", "{answer}");
    assert_eq!((&answer["stderr"]["text"], &answer["exit_code"]), (&json!("to stderr\n"), &json!(3)));
    assert_eq!(
        (&answer["limit"], &answer["signal"], &answer["timed_out"]),
        (&json!(null), &json!(null), &json!(false))
    );
    assert_eq!(
        answer["files"],
        json!([]),
        "what was given and is as it was, and no traces of the interpreter"
    );
    nothing_is_left(&bench);
}

/// Requires Node.js: `scripts/node-env` provides it on machines without it.
#[tokio::test]
async fn javascript_runs_as_a_script_and_as_a_module() {
    // The default limits, because Node.js reserves far more memory than it uses.
    let bench = Workbench::with_launcher("[sandbox]\nlevel = 'none'").await;
    let script = "const os = require('os'); console.log(require('./x.js'), process.argv.slice(2), os.homedir() === process.env.HOME)";
    let files = json!([{ "name": "x.js", "text": "module.exports = 'x'" }]);
    let arguments = json!({ "language": "node", "code": script, "files": files, "args": ["a"] });
    let answer = bench.code(arguments).await.unwrap();
    assert_eq!(answer["stdout"]["text"], "x [ 'a' ] true\n", "{answer}");
    let module = "import { writeFile } from 'node:fs/promises';\nawait writeFile('out.json', JSON.stringify({ ok: true }));";
    let answer = bench.code(json!({ "language": "node", "code": module })).await.unwrap();
    assert_eq!(
        answer["files"],
        json!([{ "name": "out.json", "bytes": 11, "text": "{\"ok\":true}" }]),
        "{answer}"
    );
    let failing = bench.code(json!({ "language": "node", "code": "throw new Error('no')" })).await.unwrap();
    assert_eq!(failing["exit_code"], 1, "{failing}");
    nothing_is_left(&bench);
}

#[tokio::test]
async fn shell_runs_and_ending_signal_is_reported() {
    let bench = small().await;
    let code = "echo \"$1 $(pwd | grep -c work)\"; kill -SEGV $$";
    let answer = bench.code(json!({ "language": "shell", "code": code, "args": ["hello"] })).await.unwrap();
    assert_eq!(answer["stdout"]["text"], "hello 1\n", "{answer}");
    assert_eq!((&answer["signal"], &answer["exit_code"]), (&json!("SEGV"), &json!(null)));
}

#[tokio::test]
async fn home_and_tmp_are_private_and_node_secrets_are_hidden() {
    let bench = small().await;
    let code = "
import os, tempfile
home = os.path.expanduser('~')
print(os.path.dirname(home) == os.path.dirname(os.getcwd()) == os.path.dirname(tempfile.gettempdir()))
print(oct(os.stat('..').st_mode & 0o777), sorted(os.listdir('.')))
print([name for name in os.environ if 'KEY' in name or 'LAUNCH' in name])
open(home + '/.cache', 'w').close()
";
    let answer = python(&bench, code).await;
    assert_eq!(answer["stdout"]["text"], "True\n0o700 ['main.py']\n[]\n", "{answer}");
    assert_eq!(answer["files"], json!([]), "files are collected from the working folder only");
}

#[tokio::test]
async fn variables_apply_to_the_code_only() {
    let bench = small().await;
    // A dynamic loader would use this variable: the warden must not be affected by it.
    let arguments = json!({
        "language": "shell", "code": "echo \"$LD_PRELOAD\"", "env": { "LD_PRELOAD": "/nowhere/x.so" },
    });
    let answer = bench.code(arguments).await.unwrap();
    assert_eq!(
        (&answer["stdout"]["text"], &answer["exit_code"]),
        (&json!("/nowhere/x.so\n"), &json!(0)),
        "{answer}"
    );
    let narrow = Workbench::with_launcher("[environment]\nset = ['LC_*']\n[sandbox]\nlevel = 'none'").await;
    let refused = narrow
        .code(json!({ "language": "shell", "code": "true", "env": { "PATH": "/x" } }))
        .await
        .unwrap_err();
    assert_eq!(refused.code, ErrorCode::Forbidden, "{}", refused.text());
}

#[tokio::test]
async fn invalid_arguments_are_refused_before_anything_runs() {
    let bench = small().await;
    let with = |name: &str, value: serde_json::Value| {
        let mut arguments = json!({ "language": "shell", "code": "echo ran >../../ran" });
        arguments[name] = value;
        arguments
    };
    for (arguments, says) in [
        (with("language", json!("ruby")), "python"),
        (with("code", json!("")), "code"),
        (with("timeout_seconds", json!(0)), "timeout_seconds"),
        (with("timeout", json!(1)), "did you mean"),
        (with("args", json!(["a\u{0}b"])), "U+0000"),
        (with("env", json!({ "A=B": "c" })), "env"),
        (with("files", json!([{ "name": "../x", "text": "" }])), "without `..`"),
        (with("files", json!([{ "name": "/x", "text": "" }])), "without"),
        (with("files", json!([{ "name": "x" }])), "either"),
        (
            with("files", json!([{ "name": "big", "text": "x".repeat(5 << 20) }])),
            "the policy of this machine allows",
        ),
    ] {
        let refused = bench.code(arguments.clone()).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidArguments, "{}", refused.text());
        assert!(refused.text().contains(says), "{}", refused.text());
    }
    nothing_is_left(&bench);
    assert!(!bench.folder().join("ran").exists());
    let long = with("args", json!(["x".repeat(300_000)]));
    let refused = bench.code(long).await.unwrap_err();
    assert!(refused.text().contains("as a file"), "{}", refused.text());
    nothing_is_left(&bench);
}

#[tokio::test]
async fn node_without_a_launcher_runs_no_code() {
    let bench = Workbench::new().await;
    let refused = bench.code(json!({ "language": "shell", "code": "true" })).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Unavailable, "{}", refused.text());
}
