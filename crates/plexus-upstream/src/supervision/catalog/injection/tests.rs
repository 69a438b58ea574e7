use serde_json::json;

use super::*;

#[test]
fn injected_arguments_are_hidden_except_paths() {
    let inject = BTreeMap::from([
        ("session".to_owned(), Inject::SessionId),
        ("folder".to_owned(), Inject::SessionFiles),
        ("file".to_owned(), Inject::Path),
        ("absent".to_owned(), Inject::SessionId),
    ]);
    let schema = json!({
        "type": "object",
        "properties": { "session": {}, "folder": {}, "file": { "type": "string" }, "text": {} },
        "required": ["session", "file"],
    });
    let (shown, injected) = prepare(schema, &inject);
    let expected = json!({
        "type": "object",
        "properties": { "file": { "type": "string" }, "text": {} },
        "required": ["file"],
    });
    assert_eq!(shown, expected);
    let names: Vec<_> = injected.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["file", "folder", "session"]);
    let nothing_left = json!({ "type": "object", "properties": { "session": {} }, "required": ["session"] });
    let (shown, _) = prepare(nothing_left, &inject);
    assert_eq!(shown, json!({ "type": "object", "properties": {} }));
}

#[test]
fn paths_become_absolute() {
    let (folder, home) = (Path::new("/data/files"), Path::new("/home/ann"));
    for (given, becomes) in [
        ("notes.txt", "/data/files/notes.txt"),
        ("./a/../b.txt", "/data/files/b.txt"),
        ("~", "/home/ann"),
        ("~/plan.md", "/home/ann/plan.md"),
        ("~bob/plan.md", "/data/files/~bob/plan.md"),
        ("/etc/../tmp/x", "/tmp/x"),
        ("../../../..", "/"),
    ] {
        assert_eq!(absolute(given, folder, Some(home)), Path::new(becomes), "{given}");
    }
    assert_eq!(absolute("~/x", folder, None), Path::new("/data/files/~/x"));
}
