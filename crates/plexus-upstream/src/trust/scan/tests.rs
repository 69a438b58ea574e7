//! Definitions that must be flagged, and ordinary ones that must not be.

use serde_json::{Value, json};

use super::*;

/// Also served by a server behind a real hub, in `tests/it/upstream/trust.rs`.
const TEXTS: &str = include_str!("texts.json");

fn table(part: &str) -> Vec<Value> {
    let table: Value = serde_json::from_str(TEXTS).unwrap();
    table[part].as_array().unwrap().clone()
}

/// Adds the members that every definition has.
fn complete_definition(mut definition: Value) -> Map<String, Value> {
    for (member, value) in [("name", json!("a_tool")), ("inputSchema", json!({ "type": "object" }))] {
        if definition.get(member).is_none() {
            definition[member] = value;
        }
    }
    definition.as_object().unwrap().clone()
}

#[test]
fn poisoned_definitions_are_flagged_for_their_reason() {
    let poisoned = table("poisoned");
    assert!(poisoned.len() >= 30);
    let mut missed = Vec::new();
    for row in poisoned {
        let flags = scan(&complete_definition(row["definition"].clone()));
        if !flags.iter().any(|flag| serde_json::to_value(flag.kind).unwrap() == row["kind"]) {
            missed.push(format!("{} as {}: {flags:?}", row["definition"], row["kind"]));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn ordinary_definitions_are_not_flagged() {
    let ordinary = table("ordinary");
    assert!(ordinary.len() >= 30);
    let mut wrong = Vec::new();
    for definition in ordinary {
        let flags = scan(&complete_definition(definition.clone()));
        if !flags.is_empty() {
            wrong.push(format!("{definition}: {flags:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The hub's own tools are described for models too.
#[test]
fn native_tools_have_no_findings() {
    for tool in plexus_tools::native::tools() {
        let spec = tool.spec();
        let definition = json!({
            "name": spec.name, "title": spec.title, "description": spec.description,
            "inputSchema": spec.input_schema, "outputSchema": spec.output_schema,
        });
        assert_eq!(scan(definition.as_object().unwrap()), [], "{}", spec.name);
    }
}

#[test]
fn finding_names_its_field_and_shows_hidden_characters() {
    let definition = json!({
        "inputSchema": { "properties": { "path": { "description": "A path\u{200B}." }, "list": { "enum": ["a", "<IMPORTANT>"] } } },
    });
    let flags = scan(definition.as_object().unwrap());
    let found: Vec<_> = flags.iter().map(|flag| (flag.kind, flag.at.as_str(), flag.found.as_str())).collect();
    assert_eq!(
        found,
        [
            (FlagKind::Instructions, "inputSchema.properties.list.enum[1]", "<important>"),
            (FlagKind::HiddenText, "inputSchema.properties.path.description", "A path<U+200B>."),
        ]
    );
    let many: Map<String, Value> =
        (0..100).map(|n| (format!("m{n}"), json!("\u{1B}[2J <important>"))).collect();
    assert_eq!(scan(&many).len(), MAX_FLAGS);
}

#[test]
fn hidden_characters_are_escaped_unless_legitimate() {
    for (text, shown) in [
        ("a\u{200B}b", "a<U+200B>b"),
        ("\u{1B}[2J", "<U+001B>[2J"),
        ("tag\u{E0041}", "tag<U+E0041>"),
        ("\u{1F468}\u{200D}\u{1F469}", "\u{1F468}\u{200D}\u{1F469}"),
        ("a\u{200D}b", "a<U+200D>b"),
        ("\u{2764}\u{FE0F}\u{FE0F}", "\u{2764}\u{FE0F}<U+FE0F>"),
        ("line\nline\ttab", "line\nline\ttab"),
    ] {
        assert_eq!(visible(text), shown);
    }
}
