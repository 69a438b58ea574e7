//! Reading files, and describing files that cannot be shown.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::workbench::Workbench;

/// A file, and its expected text, line endings, encoding and byte order mark.
type Case = (&'static str, &'static [u8], &'static str, &'static str, &'static str, bool);

async fn read(bench: &Workbench, name: &str, more: Value) -> Value {
    let mut call = json!({ "action": "read", "path": bench.home().join(name) });
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    bench.filesystem(call).await.unwrap()
}

#[tokio::test]
async fn file_is_paged_by_lines_to_its_end() {
    let bench = Workbench::new().await;
    let whole: String = (1..=5_000).map(|n| format!("line {n}\n")).collect();
    std::fs::write(bench.home().join("a"), &whole).unwrap();
    let (mut offset, mut text) = (1, String::new());
    loop {
        let page = read(&bench, "a", json!({ "offset": offset, "limit": 1_700 })).await;
        let content = &page["content"];
        assert_eq!((&content["first_line"], &content["lines"]), (&json!(offset), &json!(5_000)));
        text.push_str(content["text"].as_str().unwrap());
        match content["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(text, whole);
    let end = read(&bench, "a", json!({ "offset": -2, "line_numbers": true })).await;
    assert_eq!(end["content"]["text"], "  4999\tline 4999\n  5000\tline 5000\n");
    let beyond = json!({ "action": "read", "path": bench.home().join("a"), "offset": 5_001 });
    assert!(bench.filesystem(beyond).await.unwrap_err().text().contains("has 5000 lines"));
    std::fs::write(bench.home().join("short"), "one\ntwo").unwrap();
    let short = read(&bench, "short", json!({})).await;
    let hash =
        bench.filesystem(json!({ "action": "hash", "path": bench.home().join("short") })).await.unwrap();
    assert_eq!((&short["content"]["lines"], &short["sha256"]), (&json!(2), &hash["sha256"]));
    std::fs::write(bench.home().join("empty"), "").unwrap();
    assert!(read(&bench, "empty", json!({})).await["notes"][0].as_str().unwrap().contains("empty"));
}

#[tokio::test]
async fn line_endings_marks_and_encodings_are_reported() {
    let bench = Workbench::new().await;
    let table: &[Case] = &[
        ("lf", b"a\nb\n", "a\nb\n", "lf", "utf-8", false),
        ("crlf", b"a\r\nb\r\n", "a\r\nb\r\n", "crlf", "utf-8", false),
        ("mixed", b"a\r\nb\n", "a\r\nb\n", "mixed", "utf-8", false),
        ("none", b"a", "a", "none", "utf-8", false),
        ("bom", b"\xef\xbb\xbfa\n", "a\n", "lf", "utf-8", true),
        ("utf16", b"\xff\xfea\0\xe4\0\n\0", "aä\n", "lf", "utf-16le", false),
        ("latin1", b"caf\xe9\n", "caf\u{fffd}\n", "lf", "unknown", false),
    ];
    for (name, bytes, text, ending, encoding, bom) in table {
        std::fs::write(bench.home().join(name), bytes).unwrap();
        let answer = read(&bench, name, json!({})).await;
        let content = &answer["content"];
        assert_eq!((&content["text"], &content["line_ending"]), (&json!(text), &json!(ending)), "{name}");
        assert_eq!((&content["encoding"], content["bom"] == true), (&json!(encoding), *bom), "{name}");
        if *name == "latin1" {
            assert_eq!(STANDARD.decode(content["base64"].as_str().unwrap()).unwrap(), *bytes);
        }
    }
}

#[tokio::test]
async fn binary_file_is_described_and_its_bytes_returned_on_request() {
    let bench = Workbench::new().await;
    let bytes: Vec<u8> =
        b"\x89PNG\r\n\x1a\n".iter().copied().chain((0..=255).cycle().take(300_000)).collect();
    std::fs::write(bench.home().join("image"), &bytes).unwrap();
    let answer = read(&bench, "image", json!({})).await;
    assert_eq!(answer["about"]["looks_like"], "a PNG image");
    assert!(answer["content"].is_null() && answer["sha256"].as_str().unwrap().len() == 64, "{answer}");
    let (mut offset, mut all) = (0, Vec::new());
    loop {
        let page =
            read(&bench, "image", json!({ "as_base64": true, "offset": offset, "limit": 100_000 })).await;
        all.extend(STANDARD.decode(page["content"]["base64"].as_str().unwrap()).unwrap());
        match page["content"]["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(all, bytes);
}

#[tokio::test]
async fn huge_file_is_read_only_at_the_requested_offset() {
    let bench = Workbench::new().await;
    let path = bench.home().join("sparse");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(b"begin\nsecond\n").unwrap();
    file.seek(SeekFrom::Start(100_000_000_000)).unwrap();
    file.write_all(b"the end\n").unwrap();
    let begun = Instant::now();
    let end = read(&bench, "sparse", json!({ "unit": "bytes", "offset": -8 })).await;
    assert_eq!(end["content"]["text"], "the end\n");
    let stat = bench.filesystem(json!({ "action": "stat", "path": path })).await.unwrap();
    assert!(stat["notes"][0].as_str().unwrap().contains("sparse"), "{stat}");
    // It begins with text, but the sample includes the hole.
    assert_eq!(read(&bench, "sparse", json!({})).await["about"]["bytes"], 100_000_000_008_u64);
    let edit = json!({ "action": "edit", "path": path, "old": "begin", "new": "x" });
    assert!(bench.filesystem(edit).await.unwrap_err().text().contains("bytes"));
    assert!(begun.elapsed().as_secs() < 30);
    // A slow search ends when it is cancelled.
    let cancel = CancellationToken::new();
    let hash = bench.call("filesystem", json!({ "action": "hash", "path": path }), cancel.clone(), None);
    let (ended, ()) = tokio::join!(hash, async { cancel.cancel() });
    assert_eq!(ended.unwrap_err().code, plexus_proto::ErrorCode::Cancelled);
}

#[tokio::test]
async fn answers_are_limited_in_size() {
    let bench = Workbench::new().await;
    std::fs::write(bench.home().join("line"), format!("{}\nnext\n", "ä".repeat(2_000_000))).unwrap();
    let page = read(&bench, "line", json!({})).await;
    assert_eq!(page["content"]["cut_lines"], json!([1]));
    assert!(page["content"]["text"].as_str().unwrap().ends_with("next\n") && page.to_string().len() < 20_000);
    for (name, bytes) in [("controls", vec![1_u8; 3_000_000]), ("high", vec![0xff; 3_000_000])] {
        let lines: Vec<u8> = bytes.chunks(99).flat_map(|line| [line, b"\n"].concat()).collect();
        std::fs::write(bench.home().join(name), lines).unwrap();
        for more in [json!({ "limit": 1_000_000 }), json!({ "unit": "bytes", "limit": 1_000_000 })] {
            let page = read(&bench, name, more).await;
            assert!(page.to_string().len() < 1 << 20, "{name}");
            assert!(page["content"]["next_offset"].as_u64().unwrap() > 1, "{name}");
        }
    }
}

#[tokio::test]
async fn folders_are_listed_and_files_described() {
    let bench = Workbench::new().await;
    let home = bench.home().canonicalize().unwrap();
    std::fs::create_dir_all(home.join("p/src/deep/er")).unwrap();
    std::fs::create_dir_all(home.join("p/target")).unwrap();
    std::fs::create_dir_all(home.join("p/.git")).unwrap();
    for file in ["p/.gitignore", "p/src/main.rs", "p/src/deep/er/x", "p/target/out", "p/odd\nname"] {
        std::fs::write(home.join(file), "target\n").unwrap();
    }
    std::os::unix::fs::symlink("src/main.rs", home.join("p/link")).unwrap();
    let call = |action: &str, more: Value| {
        let mut call = json!({ "action": action, "path": home.join("p") });
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call
    };
    let names = |answer: &Value| -> Vec<String> {
        answer["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["path"].as_str().unwrap().to_owned())
            .collect()
    };
    let list = bench.filesystem(call("list", json!({}))).await.unwrap();
    assert_eq!(names(&list), [".git", ".gitignore", "link", "odd\nname", "src", "target"]);
    assert_eq!(list["entries"][2]["link_to"], "src/main.rs");
    let part = bench.filesystem(call("list", json!({ "offset": 1, "limit": 2 }))).await.unwrap();
    assert_eq!(
        (names(&part), &part["total"]["truncated"]),
        (vec![".gitignore".into(), "link".into()], &json!(true))
    );
    let tree = bench.filesystem(call("tree", json!({ "depth": 2 }))).await.unwrap();
    assert_eq!(names(&tree), ["link", "odd\nname", "src", "src/deep", "src/main.rs"]);
    let all = bench.filesystem(call("tree", json!({ "hidden": true, "ignored": true }))).await.unwrap();
    assert!(names(&all).contains(&"target/out".to_owned()) && names(&all).contains(&".git".to_owned()));
    let text =
        bench.call("filesystem", call("list", json!({})), CancellationToken::new(), None).await.unwrap();
    assert!(
        text.text().contains("odd\\nname") && text.text().contains("link -> src/main.rs"),
        "{}",
        text.text()
    );
    let diff = json!({ "action": "diff", "path": home.join("p/src/main.rs"), "text": "other\n" });
    let diff = bench.filesystem(diff).await.unwrap();
    assert!(diff["diff"].as_str().unwrap().contains("-target\n+other\n"), "{diff}");
    let same = json!({ "action": "diff", "path": home.join("p/src/main.rs"), "to": home.join("p/link") });
    assert_eq!(bench.filesystem(same).await.unwrap()["same"], true);
}
