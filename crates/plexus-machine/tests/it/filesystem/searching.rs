//! Finding files by name and by content.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::workbench::Workbench;

async fn tree() -> Workbench {
    let bench = Workbench::new().await;
    let files: &[(&str, &[u8])] = &[
        ("src/main.rs", b"fn main() {\n    let Needle = 1;\n}\n"),
        ("src/lib.rs", b"// needle here\n\n// and Needle again\n"),
        ("src/deep/mod.py", b"needle = 'a.b'\r\n"),
        ("docs/a.md", b"no such thing\n"),
        (".hidden/x.rs", b"needle\n"),
        ("build/out.rs", b"needle\n"),
        ("keep/build/no.log", b"needle\n"),
        ("image.bin", b"needle\0\x01\x02needle\n"),
        ("latin.txt", b"caf\xe9 needle\n"),
        (".gitignore", b"/build\n*.log\n!keep.log\n"),
        ("keep.log", b"needle\n"),
        (".git/config", b"needle\n"),
        ("nested/.gitignore", b"x.rs\n"),
        ("nested/x.rs", b"needle\n"),
        ("nested/y.rs", b"a\nb\nneedle\nc\nd\n"),
    ];
    for (path, content) in files {
        let path = bench.home().join("t").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    bench
}

async fn search(bench: &Workbench, action: &str, more: Value) -> Value {
    let mut call = json!({ "action": action, "path": bench.home().join("t") });
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    bench.filesystem(call).await.unwrap_or_else(|error| panic!("{}", error.text()))
}

fn paths(answer: &Value, key: &str) -> Vec<String> {
    answer[key].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn glob_follows_the_rules_of_ripgrep() {
    let bench = tree().await;
    let found = async |more: Value| paths(&search(&bench, "glob", more).await, "entries");
    assert_eq!(found(json!({ "pattern": "*.rs" })).await, ["nested/y.rs", "src/lib.rs", "src/main.rs"]);
    assert_eq!(found(json!({ "pattern": "src/*.rs" })).await, ["src/lib.rs", "src/main.rs"]);
    assert_eq!(found(json!({ "pattern": "**/*.{py,md}" })).await, ["docs/a.md", "src/deep/mod.py"]);
    assert_eq!(found(json!({ "pattern": "*.log" })).await, ["keep.log"]);
    assert_eq!(found(json!({ "pattern": "*.LOG", "ignore_case": true })).await, ["keep.log"]);
    assert_eq!(
        found(json!({ "pattern": "*.log", "ignored": true })).await,
        ["keep/build/no.log", "keep.log"]
    );
    assert_eq!(found(json!({ "pattern": ".gitignore" })).await, [".gitignore", "nested/.gitignore"]);
    let few = search(&bench, "glob", json!({ "pattern": "**", "limit": 2 })).await;
    assert_eq!((few["entries"].as_array().unwrap().len(), &few["total"]["truncated"]), (2, &json!(true)));
}

#[tokio::test]
async fn matching_lines_are_found_and_counted() {
    let bench = tree().await;
    let all = search(&bench, "grep", json!({ "pattern": "needle" })).await;
    assert_eq!(
        paths(&all, "files"),
        ["keep.log", "latin.txt", "nested/y.rs", "src/deep/mod.py", "src/lib.rs"]
    );
    assert_eq!((&all["total"]["matches"], &all["total"]["entries"]), (&json!(5), &json!(5)));
    assert_eq!(all["files"][3]["lines"][0], json!({ "line": 1, "text": "needle = 'a.b'" }));
    let count = async |more: Value| search(&bench, "grep", more).await["total"]["matches"].as_u64().unwrap();
    assert_eq!(count(json!({ "pattern": "NEEDLE", "ignore_case": true })).await, 7);
    assert_eq!(count(json!({ "pattern": "a.b", "fixed": true })).await, 1);
    assert_eq!(count(json!({ "pattern": "need", "word": true })).await, 0);
    assert_eq!(count(json!({ "pattern": "needle", "hidden": true, "ignored": true })).await, 10);
    assert_eq!(count(json!({ "pattern": "needle", "files": ["*.rs"] })).await, 2);
    assert_eq!(count(json!({ "pattern": "needle", "files": ["!*.rs", "!*.txt"] })).await, 2);
    assert_eq!(count(json!({ "pattern": "b\nneedle\nc" , "multiline": true })).await, 1);
    let around =
        search(&bench, "grep", json!({ "pattern": "needle", "files": ["y.rs"], "context": 1 })).await;
    let lines = around["files"][0]["lines"].as_array().unwrap();
    assert_eq!(lines.iter().map(|line| line["line"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(lines[0]["context"], true);
    let only = search(&bench, "grep", json!({ "pattern": "(?i)needle", "show": "files" })).await;
    assert_eq!(paths(&only, "files").len(), 6);
    let counted =
        search(&bench, "grep", json!({ "pattern": "(?i)needle", "show": "count", "files": ["lib.rs"] }))
            .await;
    assert_eq!(counted["files"][0], json!({ "path": "src/lib.rs", "matches": 2 }));
    let file = json!({ "action": "grep", "path": bench.home().join("t/build/out.rs"), "pattern": "needle" });
    assert_eq!(bench.filesystem(file).await.unwrap()["total"]["matches"], 1);
}

#[tokio::test]
async fn first_results_are_shown_and_all_are_counted() {
    let bench = Workbench::new().await;
    for n in 0..600 {
        let folder = bench.home().join(format!("t/{}", n % 7));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{n:04}")), "match\n".repeat(10)).unwrap();
    }
    let first = search(&bench, "grep", json!({ "pattern": "match", "limit": 25 })).await;
    assert_eq!((&first["total"]["matches"], &first["total"]["truncated"]), (&json!(6_000), &json!(true)));
    assert_eq!(
        paths(&first, "files"),
        ["0/0000", "0/0007", "0/0014"],
        "the same each time, whatever thread was first"
    );
    std::fs::write(bench.home().join("t/wide"), "match ".repeat(100_000)).unwrap();
    let wide = search(&bench, "grep", json!({ "pattern": "match", "files": ["wide"] })).await;
    assert!(wide.to_string().len() < 2_000, "{wide}");
    let all_matches = search(&bench, "grep", json!({ "pattern": "match", "limit": 1_000_000 })).await;
    assert!(all_matches.to_string().len() < 1 << 20);
}

#[tokio::test]
async fn huge_patterns_are_refused_and_long_searches_end() {
    let bench = tree().await;
    for pattern in ["(a{1000}){1000}", "(", &format!("{}a{}", "(".repeat(500), ")".repeat(500))] {
        let call = json!({ "action": "grep", "path": bench.home(), "pattern": pattern });
        assert_eq!(bench.filesystem(call).await.unwrap_err().code, plexus_proto::ErrorCode::InvalidArguments);
    }
    for pattern in
        [format!("**/{}", "{a,b}".repeat(600)), "[".to_owned(), format!("**/{}", "{a,".repeat(900))]
    {
        let call = json!({ "action": "glob", "path": bench.home(), "pattern": pattern });
        // Either too complex, or small enough to be harmless.
        let _ = bench.filesystem(call).await;
    }
    let slow = json!({ "action": "grep", "path": bench.home(), "pattern": "(x+x+)+y", "fixed": false });
    std::fs::write(bench.home().join("t/x"), "x".repeat(1 << 20)).unwrap();
    let begun = std::time::Instant::now();
    bench.filesystem(slow).await.unwrap();
    assert!(
        begun.elapsed().as_secs() < 30,
        "a regular expression of this kind takes time as the text is long"
    );
    let cancel = CancellationToken::new();
    cancel.cancel();
    let call = json!({ "action": "grep", "path": "/usr", "pattern": "needle" });
    assert!(bench.call("filesystem", call, cancel, None).await.is_err());
}
