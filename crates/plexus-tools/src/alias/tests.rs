//! Names of arguments, by themselves.

use super::*;

const ALIASES: &[Alias] = &[
    Alias::new("path", &["file_path", "file"]),
    Alias::new("text", &["content"]),
    Alias::new("edits/old", &["old_string"]),
];

fn resolved(arguments: Value) -> (Value, Vec<Value>) {
    let Value::Object(mut arguments) = arguments else { panic!("an object is expected") };
    let problems = resolve(ALIASES, &mut arguments);
    (Value::Object(arguments), problems)
}

#[test]
fn alias_becomes_the_canonical_name_at_any_depth() {
    let (arguments, problems) = resolved(json!({
        "file_path": "a",
        "content": "b",
        "edits": [{ "old_string": "x", "new": "y" }, { "old": "z" }, 7],
        "file": null,
    }));
    assert!(problems.is_empty(), "{problems:?}");
    let edits = json!([{ "old": "x", "new": "y" }, { "old": "z" }, 7]);
    assert_eq!(arguments, json!({ "path": "a", "text": "b", "edits": edits }));
    // A field of the same name elsewhere is not meant.
    let other = json!({ "old_string": 1, "edits": { "content": 2 } });
    assert_eq!(resolved(other.clone()).0, other);
}

#[test]
fn argument_under_two_names_is_refused_and_null_is_no_argument() {
    for (given, path) in [
        (json!({ "text": "a", "content": "a" }), "/content"),
        (json!({ "file_path": "a", "file": "b" }), "/file"),
        (json!({ "edits": [{}, { "old": "a", "old_string": "b" }] }), "/edits/1/old_string"),
    ] {
        let (arguments, problems) = resolved(given.clone());
        assert_eq!(arguments, given, "nothing is lost");
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0]["path"], path);
    }
    assert_eq!(resolved(json!({ "text": null, "content": "a" })).0, json!({ "text": "a" }));
    assert_eq!(resolved(json!({ "text": "a", "content": null })).0, json!({ "text": "a" }));
}

#[test]
fn conflicting_declarations_are_found() {
    let schema = json!({ "properties": { "path": {}, "text": {}, "file": {}, "edits": { "items": { "properties": {} } } } });
    let problems = conflicts(ALIASES, &schema);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems[0].starts_with("file is an argument itself") && problems[1].starts_with("edits/old is not")
    );
    let twice = [Alias::new("path", &["x"]), Alias::new("text", &["x"])];
    assert_eq!(conflicts(&twice, &schema), ["x is an alias of two arguments"]);
}
