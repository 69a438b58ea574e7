//! Edits of realistic files: the resulting bytes, or the error.

use serde_json::{Value, json};

use crate::workbench::Workbench;

/// The expected result of an edit.
enum ExpectedResult {
    Becomes(&'static str),
    /// The file is unchanged, and the error contains these words.
    Refused(&'static [&'static str]),
}
use ExpectedResult::{Becomes, Refused};

async fn check(
    bench: &Workbench,
    name: &str,
    before: &str,
    arguments: Value,
    expected_result: ExpectedResult,
) {
    let path = bench.home().join(name);
    std::fs::write(&path, before).unwrap();
    let mut call = arguments;
    call["path"] = path.display().to_string().into();
    let done = bench.filesystem(call).await;
    let after = std::fs::read_to_string(&path).unwrap();
    match expected_result {
        Becomes(expected) => {
            let done = done.unwrap_or_else(|error| panic!("{name}: {}", error.text()));
            assert_eq!(after, expected, "{name}");
            assert_eq!(done["changes"][0]["bytes"], expected.len(), "{name}");
        }
        Refused(words) => {
            let error = done.expect_err(name).text();
            assert_eq!(after, before, "{name}: a refused edit does not change the file");
            for word in words {
                assert!(error.contains(word), "{name}: {word:?} is not in\n{error}");
            }
            assert!(error.contains("Nothing was"), "{name}: {error}");
        }
    }
}

fn edit(old: &str, new: &str) -> Value {
    json!({ "action": "edit", "old": old, "new": new })
}

fn smart(old: &str, new: &str) -> Value {
    json!({ "action": "smart_edit", "old": old, "new": new })
}

const RUST: &str = "use std::io;\n\nfn main() -> io::Result<()> {\n    let name = \"Ada\";\n    println!(\"Hello, {name}!\");\n    Ok(())\n}\n";
const PYTHON: &str = "class Queue:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n        if item is None:\n            raise ValueError(\"no item\")\n        self.items.append(item)\n\n    def pop(self):\n        return self.items.pop(0)\n";
const MAKEFILE: &str = "CC := gcc\n\nall: main.o\n\t$(CC) -o app main.o\n\nclean:\n\trm -f app *.o\n";
const WINDOWS: &str = "[server]\r\nport = 80\r\nhost = localhost\r\n\r\n[client]\r\nport = 81\r\n";
const YAML: &str = "services:\n  web:\n    image: nginx\n    ports:\n      - 80:80\n  db:\n    image: postgres\n    ports:\n      - 5432:5432\n";
const UNENDED: &str = "first\nlast line";

#[tokio::test]
async fn exact_edits_apply_or_change_nothing() {
    let bench = Workbench::new().await;
    let table: Vec<(&str, &str, Value, ExpectedResult)> = vec![
        (
            "one.rs",
            RUST,
            edit("\"Ada\"", "\"Grace\""),
            Becomes(
                "use std::io;\n\nfn main() -> io::Result<()> {\n    let name = \"Grace\";\n    println!(\"Hello, {name}!\");\n    Ok(())\n}\n",
            ),
        ),
        (
            "several-lines.rs",
            RUST,
            edit("{\n    let name = \"Ada\";\n", "{\n    let name = \"Bob\";\n    let age = 7;\n"),
            Becomes(
                "use std::io;\n\nfn main() -> io::Result<()> {\n    let name = \"Bob\";\n    let age = 7;\n    println!(\"Hello, {name}!\");\n    Ok(())\n}\n",
            ),
        ),
        (
            "removed.rs",
            RUST,
            edit("use std::io;\n\n", ""),
            Becomes(
                "fn main() -> io::Result<()> {\n    let name = \"Ada\";\n    println!(\"Hello, {name}!\");\n    Ok(())\n}\n",
            ),
        ),
        ("twice.rs", RUST, edit("io", "fs"), Refused(&["2 times", "lines 1, 3", "replace_all"])),
        (
            "all.rs",
            RUST,
            json!({ "action": "edit", "old": "io", "new": "fs", "replace_all": true }),
            Becomes(
                "use std::fs;\n\nfn main() -> fs::Result<()> {\n    let name = \"Ada\";\n    println!(\"Hello, {name}!\");\n    Ok(())\n}\n",
            ),
        ),
        (
            "indent.rs",
            RUST,
            edit("  let name = \"Ada\";\n  println!(\"Hello, {name}!\");\n", "x"),
            Refused(&["line 4", "indentation", "smart_edit"]),
        ),
        (
            "trailing.rs",
            "fn a() {   \n    b();\n}\n",
            edit("fn a() {\n    b();\n}", "x"),
            Refused(&["line 1", "trailing spaces", "smart_edit"]),
        ),
        ("case.rs", RUST, edit("LET NAME = \"ADA\";", "x"), Refused(&["line 4", "upper and lower case"])),
        (
            "like.rs",
            RUST,
            edit("    println!(\"Hallo, {name}!\");", "x"),
            Refused(&["line 5 is similar", "wanted:", "Hello"]),
        ),
        ("nothing.rs", RUST, edit("completely different words here", "x"), Refused(&["was not found in"])),
        ("empty-old.rs", RUST, edit("", "x"), Refused(&["empty"])),
        ("same.rs", RUST, edit("Ok(())", "Ok(())"), Refused(&["the same"])),
        (
            "crlf.ini",
            WINDOWS,
            edit("port = 80\r\nhost", "port = 8080\r\nhost"),
            Becomes("[server]\r\nport = 8080\r\nhost = localhost\r\n\r\n[client]\r\nport = 81\r\n"),
        ),
        (
            "crlf-missed.ini",
            WINDOWS,
            edit("port = 80\nhost = localhost", "x"),
            Refused(&["line 2", "CRLF", "smart_edit"]),
        ),
        (
            "within-crlf.ini",
            WINDOWS,
            edit("localhost", "example.net"),
            Becomes("[server]\r\nport = 80\r\nhost = example.net\r\n\r\n[client]\r\nport = 81\r\n"),
        ),
        ("prefix.ini", WINDOWS, edit("port = 8", "port = 9"), Refused(&["2 times", "lines 2, 6"])),
        ("unended.txt", UNENDED, edit("last line", "the end"), Becomes("first\nthe end")),
        ("unended-more.txt", UNENDED, edit("last line", "last line\n"), Becomes("first\nlast line\n")),
        (
            "tabs.mk",
            MAKEFILE,
            edit("\trm -f app *.o", "\trm -f app *.o *.d"),
            Becomes("CC := gcc\n\nall: main.o\n\t$(CC) -o app main.o\n\nclean:\n\trm -f app *.o *.d\n"),
        ),
        (
            "tabs-missed.mk",
            MAKEFILE,
            edit("    rm -f app *.o\n", "x"),
            Refused(&["line 7", "tabs and spaces", "→rm"]),
        ),
        (
            "unicode.md",
            "# Überschrift\n\nStraße, 東京, 😀 und mehr.\n",
            edit("東京, 😀", "Москва 🚀"),
            Becomes("# Überschrift\n\nStraße, Москва 🚀 und mehr.\n"),
        ),
        (
            "json.json",
            "{\n  \"name\": \"app\",\n  \"version\": \"1.0.0\"\n}\n",
            edit("\"version\": \"1.0.0\"", "\"version\": \"1.0.1\",\n  \"private\": true"),
            Becomes("{\n  \"name\": \"app\",\n  \"version\": \"1.0.1\",\n  \"private\": true\n}\n"),
        ),
        (
            "yaml.yml",
            YAML,
            edit(
                "    image: nginx\n    ports:\n      - 80:80",
                "    image: caddy\n    ports:\n      - 443:443",
            ),
            Becomes(
                "services:\n  web:\n    image: caddy\n    ports:\n      - 443:443\n  db:\n    image: postgres\n    ports:\n      - 5432:5432\n",
            ),
        ),
        ("yaml-twice.yml", YAML, edit("    ports:\n", "x"), Refused(&["2 times", "lines 4, 8"])),
        (
            "overlap.txt",
            "aaaa\n",
            json!({ "action": "edit", "old": "aa", "new": "b", "replace_all": true }),
            Becomes("bb\n"),
        ),
        ("regex.txt", "a.c abc a.c$1\n", edit("a.c$1", "$0\\1"), Becomes("a.c abc $0\\1\n")),
        (
            "several.py",
            PYTHON,
            json!({ "action": "edit", "edits": [
            { "old": "self.items = []", "new": "self.items = deque()" },
            { "old": "self.items.pop(0)", "new": "self.items.popleft()" },
            { "old": "class Queue", "new": "from collections import deque\n\n\nclass Queue" },
        ] }),
            Becomes(
                "from collections import deque\n\n\nclass Queue:\n    def __init__(self):\n        self.items = deque()\n\n    def push(self, item):\n        if item is None:\n            raise ValueError(\"no item\")\n        self.items.append(item)\n\n    def pop(self):\n        return self.items.popleft()\n",
            ),
        ),
        (
            "one-fails.py",
            PYTHON,
            json!({ "action": "edit", "edits": [
            { "old": "self.items = []", "new": "self.items = deque()" },
            { "old": "self.things", "new": "x" },
        ] }),
            Refused(&["edit 2 of 2"]),
        ),
        (
            "in-order.txt",
            "one\n",
            json!({ "action": "edit", "edits": [
            { "old": "one", "new": "two" }, { "old": "two", "new": "three" },
        ] }),
            Becomes("three\n"),
        ),
        (
            "dry.txt",
            "one\n",
            json!({ "action": "edit", "old": "gone", "new": "x", "dry_run": true }),
            Refused(&["was not found in"]),
        ),
        (
            "hash.txt",
            "one\n",
            json!({ "action": "edit", "old": "one", "new": "x", "if_sha256": "00" }),
            Refused(&["has changed"]),
        ),
    ];
    assert!(table.len() > 25);
    for (name, before, arguments, expected_result) in table {
        check(&bench, name, before, arguments, expected_result).await;
    }
}

#[tokio::test]
async fn smart_edits_ignore_and_preserve_whitespace() {
    let bench = Workbench::new().await;
    let table: Vec<(&str, &str, Value, ExpectedResult)> = vec![
        (
            "exact.rs",
            RUST,
            smart("\"Ada\"", "\"Grace\""),
            Becomes(
                "use std::io;\n\nfn main() -> io::Result<()> {\n    let name = \"Grace\";\n    println!(\"Hello, {name}!\");\n    Ok(())\n}\n",
            ),
        ),
        (
            "less-indent.py",
            PYTHON,
            smart(
                "if item is None:\n    raise ValueError(\"no item\")",
                "if item is None:\n    log(item)\n    raise TypeError(\"no item\")",
            ),
            Becomes(
                "class Queue:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n        if item is None:\n            log(item)\n            raise TypeError(\"no item\")\n        self.items.append(item)\n\n    def pop(self):\n        return self.items.pop(0)\n",
            ),
        ),
        (
            "deeper-in-new.py",
            PYTHON,
            smart(
                "def pop(self):\n    return self.items.pop(0)\n",
                "def pop(self):\n    if self.items:\n        return self.items.pop(0)\n    return None\n",
            ),
            Becomes(
                "class Queue:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n        if item is None:\n            raise ValueError(\"no item\")\n        self.items.append(item)\n\n    def pop(self):\n        if self.items:\n            return self.items.pop(0)\n        return None\n",
            ),
        ),
        (
            "tabs-for-spaces.mk",
            MAKEFILE,
            smart("clean:\n    rm -f app *.o", "clean:\n    rm -f app\n    rm -f *.o"),
            Becomes("CC := gcc\n\nall: main.o\n\t$(CC) -o app main.o\n\nclean:\n\trm -f app\n\trm -f *.o\n"),
        ),
        (
            "spaces-for-tabs.rs",
            RUST,
            smart(
                "fn main() -> io::Result<()> {\n\tlet name = \"Ada\";",
                "fn main() -> io::Result<()> {\n\tlet name = \"Eve\";\n\tif name.is_empty() {\n\t\treturn Ok(());\n\t}",
            ),
            Becomes(
                "use std::io;\n\nfn main() -> io::Result<()> {\n    let name = \"Eve\";\n    if name.is_empty() {\n        return Ok(());\n    }\n    println!(\"Hello, {name}!\");\n    Ok(())\n}\n",
            ),
        ),
        (
            "go.go",
            "func f() {\n\tif a {\n\t\tb()\n\t}\n}\n",
            smart(
                "    if a {\n        b()\n    }",
                "    if a {\n        for {\n            b()\n        }\n    }",
            ),
            Becomes("func f() {\n\tif a {\n\t\tfor {\n\t\t\tb()\n\t\t}\n\t}\n}\n"),
        ),
        ("trailing.txt", "one  \ntwo\t\nthree\n", smart("one\ntwo\n", "1\n2\n"), Becomes("1\n2\nthree\n")),
        (
            "crlf.ini",
            WINDOWS,
            smart("port = 80\nhost = localhost", "port = 8080\nhost = 0.0.0.0\ntls = on"),
            Becomes("[server]\r\nport = 8080\r\nhost = 0.0.0.0\r\ntls = on\r\n\r\n[client]\r\nport = 81\r\n"),
        ),
        (
            "crlf-one-line.ini",
            WINDOWS,
            smart("host = localhost", "host = a\nalias = b"),
            Becomes("[server]\r\nport = 80\r\nhost = a\r\nalias = b\r\n\r\n[client]\r\nport = 81\r\n"),
        ),
        ("unended.txt", UNENDED, smart("  last line", "  the end"), Becomes("first\nthe end")),
        ("unended-two.txt", "a\n  b\n  c", smart("b\nc\n", "b\nd\ne\n"), Becomes("a\n  b\n  d\n  e")),
        (
            "removed.yml",
            YAML,
            smart("db:\n  image: postgres\n  ports:\n    - 5432:5432\n", ""),
            Becomes("services:\n  web:\n    image: nginx\n    ports:\n      - 80:80\n"),
        ),
        (
            "two-for-four.js",
            "if (a) {\n  if (b) {\n    c();\n  }\n}\n",
            smart(
                "if (a) {\n    if (b) {\n        c();\n    }\n}",
                "if (a) {\n    if (b) {\n        c();\n        if (d) {\n            e();\n        }\n    }\n}",
            ),
            Becomes("if (a) {\n  if (b) {\n    c();\n    if (d) {\n      e();\n    }\n  }\n}\n"),
        ),
        (
            "several.yml",
            YAML,
            smart("ports:\n  - 80:80", "x"),
            Becomes(
                "services:\n  web:\n    image: nginx\n    x\n  db:\n    image: postgres\n    ports:\n      - 5432:5432\n",
            ),
        ),
        ("twice.yml", YAML, smart("  ports:\n", "x"), Refused(&["2 times", "lines 4, 8"])),
        (
            "all.html",
            "<li>\n  <b>x</b>\n</li>\n<ul>\n    <b>x</b>\n</ul>\n",
            json!({ "action": "smart_edit", "old": " <b>x</b>\n", "new": " <i>x</i>\n", "replace_all": true }),
            Becomes("<li>\n  <i>x</i>\n</li>\n<ul>\n    <i>x</i>\n</ul>\n"),
        ),
        (
            "other-structure.py",
            "if a:\n    b\nc\n",
            smart("if a:\n    b\n    c\n", "x"),
            Refused(&["was not found in"]),
        ),
        ("inner-space.py", "x = f(a,  b)\n", smart("x = f(a, b)", "y"), Refused(&["line 1 is similar"])),
        ("blank.py", "a \n \nb\n", smart("\n\n", "x"), Refused(&["was not found in"])),
        (
            "blank-lines.py",
            "def f():\n    a\n    \n    b\n",
            smart("def f():\n    a\n\n    b\n", "def f():\n    c\n\n    b\n"),
            Becomes("def f():\n    c\n\n    b\n"),
        ),
        (
            "long.txt",
            LONG,
            smart("   block 7\n     value = 7\n", "   block 7\n     value = 70\n"),
            Becomes(LONG_CHANGED),
        ),
    ];
    assert!(table.len() > 20);
    for (name, before, arguments, expected_result) in table {
        check(&bench, name, before, arguments, expected_result).await;
    }
}

const LONG: &str = "block 1\n  value = 1\nend\nblock 7\n  value = 7\nend\nblock 8\n  value = 7\nend\n";
const LONG_CHANGED: &str =
    "block 1\n  value = 1\nend\nblock 7\n  value = 70\nend\nblock 8\n  value = 7\nend\n";

#[tokio::test]
async fn other_encodings_are_preserved_or_refused() {
    let bench = Workbench::new().await;
    let path = bench.home().join("latin1.txt");
    std::fs::write(&path, b"caf\xe9 = 1\nna\xefve = 2\n").unwrap();
    let call = json!({ "action": "edit", "path": path, "old": "= 2", "new": "= 3" });
    bench.filesystem(call).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"caf\xe9 = 1\nna\xefve = 3\n");
    for (name, content) in
        [("utf16.txt", &b"\xff\xfea\0b\0"[..]), ("elf", b"\x7fELF\x02ab"), ("nul", b"a\0b")]
    {
        let path = bench.home().join(name);
        std::fs::write(&path, content).unwrap();
        let call = json!({ "action": "edit", "path": path, "old": "a", "new": "c" });
        let error = bench.filesystem(call).await.unwrap_err();
        assert!(error.text().contains("cannot be edited as text"), "{}", error.text());
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
    let path = bench.home().join("bom.cs");
    std::fs::write(&path, "\u{feff}using System;\r\n").unwrap();
    let call = json!({ "action": "edit", "path": path, "old": "System", "new": "Linq" });
    bench.filesystem(call).await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "\u{feff}using Linq;\r\n");
}

#[tokio::test]
async fn concurrent_edits_are_not_lost() {
    let bench = Workbench::new().await;
    let path = bench.home().join("counters");
    let before: String = (0..20).map(|n| format!("counter {n}: old\n")).collect();
    std::fs::write(&path, before).unwrap();
    let edits = (0..20).map(|n| {
        let (old, new) = (format!("counter {n}: old"), format!("counter {n}: new"));
        bench.filesystem(json!({ "action": "edit", "path": path, "old": old, "new": new }))
    });
    for done in futures_util::future::join_all(edits).await {
        done.unwrap();
    }
    let after: String = (0..20).map(|n| format!("counter {n}: new\n")).collect();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
}
