//! Patches as git, diff and models write them: the resulting files, or the error without any change.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use crate::workbench::Workbench;

enum ExpectedResult {
    /// All files after it.
    Leaves(&'static [(&'static str, &'static str)]),
    /// The files are unchanged, and the error contains these words.
    Refused(&'static [&'static str]),
}
use ExpectedResult::{Leaves, Refused};

/// The name of the case, the files before it, and the patch.
type Case = (&'static str, &'static [(&'static str, &'static str)], &'static str, ExpectedResult);

/// All files below a folder.
fn all(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        for entry in std::fs::read_dir(path).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => waiting.push(entry.path()),
                false => {
                    let name = entry.path().strip_prefix(folder).unwrap().display().to_string();
                    found.insert(name, std::fs::read_to_string(entry.path()).unwrap());
                }
            }
        }
    }
    found
}

async fn check(
    bench: &Workbench,
    name: &str,
    before: &[(&str, &str)],
    patch: &str,
    expected_result: ExpectedResult,
) {
    let folder = bench.home().join(name);
    for (file, content) in before {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    std::fs::create_dir_all(&folder).unwrap();
    let was = all(&folder);
    let done = bench.filesystem(json!({ "action": "patch", "path": folder, "patch": patch })).await;
    let is = all(&folder);
    match expected_result {
        Leaves(expected) => {
            done.unwrap_or_else(|error| panic!("{name}: {}", error.text()));
            let expected =
                expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            assert_eq!(is, expected, "{name}");
        }
        Refused(words) => {
            let error = done.expect_err(name).text();
            assert_eq!(is, was, "{name}: a refused patch does not change any file");
            for word in words {
                assert!(error.contains(word), "{name}: {word:?} is not in\n{error}");
            }
        }
    }
}

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
const REPEATED: &str = "start\nfoo\nbar\nend\nstart\nfoo\nbar\nend\nstart\nfoo\nbar\nend\n";

#[tokio::test]
async fn patches_apply_to_all_files_or_none() {
    let bench = Workbench::new().await;
    let table: &[Case] = &[
        (
            "git",
            &[("a.txt", LINES)],
            "diff --git a/a.txt b/a.txt\nindex 1..2 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -4,3 +4,3 @@\n 4\n-5\n+five\n 6\n",
            Leaves(&[("a.txt", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n")]),
        ),
        (
            "plain",
            &[("a.txt", LINES)],
            "--- a.txt\t2026-01-01 10:00:00\n+++ a.txt\t2026-01-01 10:00:01\n@@ -1,2 +1,1 @@\n-1\n 2\n",
            Leaves(&[("a.txt", "2\n3\n4\n5\n6\n7\n8\n9\n")]),
        ),
        (
            "two-hunks",
            &[("a.txt", LINES)],
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n 1\n+1.5\n 2\n@@ -8,2 +9,2 @@\n 8\n-9\n+nine\n",
            Leaves(&[("a.txt", "1\n1.5\n2\n3\n4\n5\n6\n7\n8\nnine\n")]),
        ),
        (
            "offset",
            &[("a.txt", "0\n0\n0\n1\n2\n3\n4\n5\n")],
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n",
            Leaves(&[("a.txt", "0\n0\n0\n1\ntwo\n3\n4\n5\n")]),
        ),
        (
            "fuzz",
            &[("a.txt", "changed\n2\n3\n4\n5\n")],
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,5 +1,5 @@\n 1\n 2\n-3\n+three\n 4\n 5\n",
            Leaves(&[("a.txt", "changed\n2\nthree\n4\n5\n")]),
        ),
        (
            "wrong-counts",
            &[("a.txt", LINES)],
            "--- a/a.txt\n+++ b/a.txt\n@@ -4,1 +4,9 @@\n 4\n-5\n+five\n 6\n",
            Leaves(&[("a.txt", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n")]),
        ),
        (
            "no-numbers",
            &[("a.txt", LINES)],
            "--- a/a.txt\n+++ b/a.txt\n@@ ... @@\n 4\n-5\n+five\n 6\n",
            Leaves(&[("a.txt", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n")]),
        ),
        (
            "lost-space",
            &[("a.txt", "a\n\nb\nc\n")],
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,4 +1,4 @@\n a\n\n-b\n+B\n c\n",
            Leaves(&[("a.txt", "a\n\nB\nc\n")]),
        ),
        (
            "new-file",
            &[("a.txt", "a\n")],
            "--- /dev/null\n+++ b/sub/dir/new.txt\n@@ -0,0 +1,2 @@\n+hello\n+world\n",
            Leaves(&[("a.txt", "a\n"), ("sub/dir/new.txt", "hello\nworld\n")]),
        ),
        (
            "new-unended",
            &[],
            "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+hello\n\\ No newline at end of file\n",
            Leaves(&[("new", "hello")]),
        ),
        (
            "new-is-there",
            &[("a.txt", "a\n")],
            "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+b\n",
            Refused(&["already exists"]),
        ),
        (
            "removed",
            &[("a.txt", "a\nb\n"), ("b.txt", "b\n")],
            "diff --git a/a.txt b/a.txt\ndeleted file mode 100644\n--- a/a.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n",
            Leaves(&[("b.txt", "b\n")]),
        ),
        (
            "removed-has-more",
            &[("a.txt", "a\nb\nc\n")],
            "--- a/a.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n",
            Refused(&["more content"]),
        ),
        (
            "renamed",
            &[("a.txt", LINES)],
            "diff --git a/a.txt b/sub/b.txt\nsimilarity index 100%\nrename from a.txt\nrename to sub/b.txt\n",
            Leaves(&[("sub/b.txt", LINES)]),
        ),
        (
            "renamed-and-changed",
            &[("a.txt", "1\n2\n3\n")],
            "diff --git a/a.txt b/b.txt\nsimilarity index 60%\nrename from a.txt\nrename to b.txt\n--- a/a.txt\n+++ b/b.txt\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n",
            Leaves(&[("b.txt", "1\ntwo\n3\n")]),
        ),
        (
            "renamed-onto",
            &[("a.txt", "a\n"), ("b.txt", "b\n")],
            "diff --git a/a.txt b/b.txt\nrename from a.txt\nrename to b.txt\n",
            Refused(&["already exists"]),
        ),
        (
            "rename-then-plain",
            &[("a.txt", "a\n"), ("c.txt", "c\n")],
            "diff --git a/a.txt b/b.txt\nrename from a.txt\nrename to b.txt\n--- a/c.txt\n+++ b/c.txt\n@@ -1 +1 @@\n-c\n+C\n",
            Leaves(&[("b.txt", "a\n"), ("c.txt", "C\n")]),
        ),
        (
            "several",
            &[("a.txt", "a\n"), ("b.txt", "b\n")],
            "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+A\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-b\n+B\n--- /dev/null\n+++ b/c.txt\n@@ -0,0 +1 @@\n+C\n",
            Leaves(&[("a.txt", "A\n"), ("b.txt", "B\n"), ("c.txt", "C\n")]),
        ),
        (
            "last-fails",
            &[("a.txt", "a\n"), ("b.txt", "b\n")],
            "--- /dev/null\n+++ b/deep/er/c.txt\n@@ -0,0 +1 @@\n+C\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+A\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-x\n+B\n",
            Refused(&["does not fit", "b.txt", "No file was changed"]),
        ),
        (
            "missing-file",
            &[("a.txt", "a\n")],
            "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+A\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-x\n+B\n",
            Refused(&["does not exist"]),
        ),
        (
            "crlf",
            &[("a.txt", "a\r\nb\r\nc\r\n")],
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n+BB\n c\n",
            Leaves(&[("a.txt", "a\r\nB\r\nBB\r\nc\r\n")]),
        ),
        (
            "crlf-in-patch",
            &[("a.txt", "a\nb\nc\n")],
            "--- a/a.txt\r\n+++ b/a.txt\r\n@@ -1,3 +1,3 @@\r\n a\r\n-b\r\n+B\r\n c\r\n",
            Leaves(&[("a.txt", "a\nB\nc\n")]),
        ),
        (
            "unended",
            &[("a.txt", "a\nb")],
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+B\n\\ No newline at end of file\n",
            Leaves(&[("a.txt", "a\nB")]),
        ),
        (
            "ended-now",
            &[("a.txt", "a\nb")],
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n",
            Leaves(&[("a.txt", "a\nb\n")]),
        ),
        (
            "after-unended",
            &[("a.txt", "a\nb")],
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n a\n b\n+c\n",
            Leaves(&[("a.txt", "a\nb\nc\n")]),
        ),
        (
            "repeated-at-line",
            &[("a.txt", REPEATED)],
            "--- a/a.txt\n+++ b/a.txt\n@@ -5,4 +5,4 @@\n start\n-foo\n+FOO\n bar\n end\n",
            Leaves(&[("a.txt", "start\nfoo\nbar\nend\nstart\nFOO\nbar\nend\nstart\nfoo\nbar\nend\n")]),
        ),
        (
            "repeated-elsewhere",
            &[("a.txt", REPEATED)],
            "--- a/a.txt\n+++ b/a.txt\n@@ -7,4 +7,4 @@\n start\n-foo\n+FOO\n bar\n end\n",
            Refused(&["several lines: 1, 5, 9"]),
        ),
        (
            "nearest",
            &[("a.py", "def f():\n    return 1\n")],
            "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 2\n+    return 3\n",
            Refused(&["differs at line 2", "return 2", "return 1"]),
        ),
        (
            "dashes",
            &[("a.sql", "-- one\nselect 1;\n-- two\n")],
            "--- a/a.sql\n+++ b/a.sql\n@@ -1,3 +1,3 @@\n--- one\n+-- eins\n select 1;\n -- two\n",
            Leaves(&[("a.sql", "-- eins\nselect 1;\n-- two\n")]),
        ),
        (
            "quoted",
            &[("ü x.txt", "a\n")],
            "diff --git \"a/\\303\\274 x.txt\" \"b/\\303\\274 x.txt\"\n--- \"a/\\303\\274 x.txt\"\n+++ \"b/\\303\\274 x.txt\"\n@@ -1 +1 @@\n-a\n+b\n",
            Leaves(&[("ü x.txt", "b\n")]),
        ),
        (
            "mail",
            &[("a.txt", "a\n")],
            "From: Ada\nSubject: a change\n\nSome words.\n---\n a.txt | 2 +-\n\ndiff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n-- \n2.40.0\n",
            Leaves(&[("a.txt", "b\n")]),
        ),
        (
            "twice",
            &[("a.txt", LINES)],
            "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-1\n+one\n--- a/a.txt\n+++ b/a.txt\n@@ -2 +2 @@\n-2\n+two\n",
            Refused(&["twice"]),
        ),
        (
            "binary",
            &[("a", "a\n")],
            "diff --git a/a b/a\nindex 1..2 100644\nGIT binary patch\nliteral 3\nabc\n",
            Refused(&["binary"]),
        ),
        (
            "link",
            &[],
            "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n",
            Refused(&["link"]),
        ),
        ("words", &[("a", "a\n")], "please change a to b\n", Refused(&["no hunk"])),
        (
            "out",
            &[("in/a.txt", "a\n")],
            "--- a/../../out.txt\n+++ b/../../out.txt\n@@ -1 +1 @@\n-a\n+b\n",
            Refused(&["without `..`"]),
        ),
        (
            "absolute",
            &[("a.txt", "a\n")],
            "--- /etc/hostname\n+++ /etc/hostname\n@@ -1 +1 @@\n-a\n+b\n",
            Refused(&["relative to `path`"]),
        ),
    ];
    assert!(table.len() >= 30);
    for (name, before, patch, expected_result) in table {
        let expected_result = match expected_result {
            Leaves(files) => Leaves(files),
            Refused(words) => Refused(words),
        };
        check(&bench, name, before, patch, expected_result).await;
    }
}

#[tokio::test]
async fn patch_for_a_single_file_needs_no_file_names() {
    let bench = Workbench::new().await;
    let path = bench.home().join("script.sh");
    std::fs::write(&path, "echo 1\n").unwrap();
    let patch = "@@ -1 +1 @@\n-echo 1\n+echo 2\n";
    let call = |dry| json!({ "action": "patch", "path": path, "patch": patch, "dry_run": dry });
    let answer = bench.filesystem(call(true)).await.unwrap();
    assert!(answer["diff"].as_str().unwrap().contains("+echo 2"), "{answer}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "echo 1\n");
    let done = bench.filesystem(call(false)).await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "echo 2\n");
    assert_eq!(
        (&done["changes"][0]["what"], &done["changes"][0]["replaced"]),
        (&json!("changed"), &json!(1))
    );
    let mode =
        "diff --git a/run b/run\nnew file mode 100755\n--- /dev/null\n+++ b/run\n@@ -0,0 +1 @@\n+#!/bin/sh\n";
    bench.filesystem(json!({ "action": "patch", "path": bench.home(), "patch": mode })).await.unwrap();
    let about = std::fs::metadata(bench.home().join("run")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o111, 0o111);
}
