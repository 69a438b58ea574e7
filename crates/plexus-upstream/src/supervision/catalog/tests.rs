//! Tool lists of servers and the resulting catalogs.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::config::{Approve, Inject, StdioConfig, ToolRules, Transport};

fn config() -> ServerConfig {
    ServerConfig {
        name: "s".to_owned(),
        slug: "s".to_owned(),
        file: PathBuf::new(),
        enabled: true,
        lazy: false,
        per_session: false,
        questions: true,
        transport: Transport::Stdio(StdioConfig {
            command: "x".to_owned(),
            args: vec![],
            env: BTreeMap::new(),
            cwd: None,
        }),
        groups: BTreeMap::new(),
        instructions: None,
        tools: ToolRules::default(),
        timeout: Duration::from_secs(7),
        max_concurrency: None,
        bare_names: false,
        approve: Approve::Tofu,
        inject: BTreeMap::new(),
        warnings: vec![],
        fingerprint: 0,
        presentation: 0,
    }
}

/// The catalog of a fully trusted server.
fn all_of(config: &ServerConfig, definitions: &Definitions) -> (Catalog, Vec<ToolSpec>) {
    build(config, definitions, |_| true)
}

fn tool(name: &str) -> Map<String, Value> {
    let Value::Object(tool) = json!({ "name": name, "inputSchema": { "type": "object" } }) else { panic!() };
    tool
}

fn with(name: &str, more: Value) -> Map<String, Value> {
    let mut tool = tool(name);
    tool.extend(more.as_object().unwrap().clone());
    tool
}

fn names(specs: &[ToolSpec]) -> Vec<&str> {
    specs.iter().map(|spec| &*spec.name).collect()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn rules_match_and_rename_the_servers_own_names() {
    let rules = ToolRules {
        allow: strings(&["issue_*", "search"]),
        deny: strings(&["*_delete"]),
        rename: BTreeMap::from([
            ("search".to_owned(), "find".to_owned()),
            ("gone".to_owned(), "x".to_owned()),
        ]),
        idempotent: strings(&["issue_set"]),
    };
    let groups = BTreeMap::from([
        ("issues".to_owned(), strings(&["issue_*"])),
        ("reading".to_owned(), strings(&["search", "issue_get"])),
    ]);
    let config = ServerConfig { tools: rules, groups, ..config() };
    let list = ["issue_get", "issue_set", "issue_delete", "search", "other"].map(tool).to_vec();
    let (catalog, specs) = all_of(&config, &list);
    assert_eq!(names(&specs), ["mcp__s__issue_get", "mcp__s__issue_set", "mcp__s__find"]);
    let groups: Vec<_> = specs.iter().map(|spec| spec.upstream().unwrap().groups.clone()).collect();
    assert_eq!(groups, [strings(&["issues", "reading"]), strings(&["issues"]), strings(&["reading"])]);
    let find = &catalog.entries["mcp__s__find"];
    assert_eq!((find.tool.as_str(), find.repeatable), ("search", false), "calls use the server's own name");
    assert_eq!(specs[2].upstream().unwrap().tool, "find");
    assert!(catalog.entries["mcp__s__issue_set"].repeatable);
    assert_eq!(catalog.warnings, ["tools.rename names \"gone\", which is not among its tools"]);
}

#[test]
fn unmatched_names_are_warned_about_with_a_suggestion() {
    let rules = ToolRules {
        allow: strings(&["issue_*", "serach", "*"]),
        deny: strings(&["delte_*", "*_delet", "issue_gett", "zebra", "a*b*", "issue_delete"]),
        rename: BTreeMap::from([("serch".to_owned(), "find".to_owned())]),
        idempotent: strings(&["isue_set"]),
    };
    let groups = BTreeMap::from([
        ("issues".to_owned(), strings(&["issues_*"])),
        ("left out".to_owned(), strings(&["issue_delete"])),
    ]);
    let config = ServerConfig { tools: rules, groups, ..config() };
    let list = ["issue_get", "issue_set", "issue_delete", "delete_all", "search"].map(tool).to_vec();
    assert_eq!(
        all_of(&config, &list).0.warnings,
        [
            "tools.allow names \"serach\", which is not among its tools; did you mean \"search\"?",
            "tools.deny names \"delte_*\", which matches none of its tools; did you mean \"delete_*\"?",
            "tools.deny names \"*_delet\", which matches none of its tools; did you mean \"*_delete\"?",
            "tools.deny names \"issue_gett\", which is not among its tools; did you mean \"issue_get\"?",
            "tools.deny names \"zebra\", which is not among its tools",
            "tools.deny names \"a*b*\", which matches none of its tools",
            "tools.idempotent names \"isue_set\", which is not among its tools; did you mean \"issue_set\"?",
            "groups.issues names \"issues_*\", which matches none of its tools; did you mean \"issue_*\"?",
            "tools.rename names \"serch\", which is not among its tools; did you mean \"search\"?",
        ]
    );
}

#[test]
fn tool_is_not_renamed_to_another_tools_name() {
    let renaming = |pairs: &[(&str, &str)], list: &[&str]| {
        let rename = pairs.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
        let config = ServerConfig { tools: ToolRules { rename, ..ToolRules::default() }, ..config() };
        let list = list.iter().map(|name| tool(name)).collect();
        let (catalog, _) = all_of(&config, &list);
        let tools = catalog.entries.into_iter().map(|(name, entry)| (name, entry.tool));
        (tools.collect::<Vec<_>>(), catalog.warnings)
    };
    let called = |name: &str, tool: &str| (format!("mcp__s__{name}"), tool.to_owned());
    let (tools, warnings) = renaming(&[("a", "b")], &["a", "b"]);
    assert_eq!(tools, [called("a", "a"), called("b", "b")]);
    assert_eq!(
        warnings,
        [
            "tools.rename would give \"a\" the name \"b\", which another of its tools already has; it is not renamed"
        ]
    );
    let (tools, warnings) = renaming(&[("a", "b c")], &["a", "b_c"]);
    assert_eq!((tools, warnings.len()), (vec![called("a", "a"), called("b_c", "b_c")], 1));
    let (tools, warnings) = renaming(&[("a", "b"), ("b", "a")], &["a", "b"]);
    assert_eq!((tools, warnings.len()), (vec![called("a", "b"), called("b", "a")], 0), "they swap names");
    let (tools, warnings) = renaming(&[("a", "b"), ("b", "c")], &["a", "b", "c"]);
    let own_names = ["a", "b", "c"].map(|name| called(name, name));
    assert_eq!((tools, warnings.len()), (own_names.to_vec(), 2), "one rename blocks the other");
}

#[test]
fn colliding_names_stay_distinct_in_any_order() {
    let config = config();
    let list = vec![tool("a.b"), tool("a/b"), tool("a_b"), tool("c")];
    let (catalog, specs) = all_of(&config, &list);
    assert_eq!(catalog.entries.len(), 4);
    assert_eq!(specs.iter().filter(|spec| spec.name.starts_with("mcp__s__a_b_")).count(), 3, "{specs:?}");
    let reversed: Definitions = list.iter().rev().cloned().collect();
    assert_eq!(all_of(&config, &reversed).0.entries, catalog.entries);
    // Removing one tool does not give its name to another.
    let (fewer, _) = all_of(&config, &list[..3].to_vec());
    for (name, entry) in &fewer.entries {
        assert_eq!(catalog.entries.get(name), Some(entry));
    }
}

#[test]
fn tools_renamed_to_one_name_use_their_own_names() {
    let rename = ["a", "b"].map(|name| (name.to_owned(), "x".to_owned()));
    let config = ServerConfig {
        tools: ToolRules { rename: BTreeMap::from(rename), ..ToolRules::default() },
        ..config()
    };
    let (catalog, _) = all_of(&config, &vec![tool("a"), tool("b")]);
    let tools: Vec<_> = catalog.entries.values().map(|entry| entry.tool.as_str()).collect();
    assert_eq!(tools, ["a", "b"], "{:?}", catalog.entries);
}

#[test]
fn unusable_tools_are_left_out_with_a_warning() {
    let nameless = with("x", json!({ "name": 7 }));
    let without_schema = with("no_schema", json!({ "inputSchema": [] }));
    let huge = with("huge", json!({ "outputSchema": { "description": "x".repeat(MAX_DEFINITION) } }));
    let long = tool(&"n".repeat(MAX_NAME + 1));
    let list = vec![nameless, without_schema, huge, long, tool("good"), tool("good")];
    let (catalog, specs) = all_of(&config(), &list);
    assert_eq!(names(&specs), ["mcp__s__good"]);
    assert_eq!(catalog.warnings.len(), 5, "{:?}", catalog.warnings);
}

#[test]
fn long_list_is_truncated() {
    let list: Definitions = (0..MAX_TOOLS + 5).map(|n| tool(&format!("t{n:05}"))).collect();
    let (catalog, specs) = all_of(&config(), &list);
    assert_eq!((catalog.entries.len(), specs.len()), (MAX_TOOLS, MAX_TOOLS));
    assert!(catalog.warnings[0].contains("1005 tools"), "{:?}", catalog.warnings);
    let bad: Definitions = (0..100).map(|_| Map::new()).collect();
    assert_eq!(all_of(&config(), &bad).0.warnings.len(), MAX_WARNINGS + 1);
}

#[test]
fn missing_annotations_default_to_the_worst_case() {
    let read = with("read", json!({ "annotations": { "readOnlyHint": true, "openWorldHint": false } }));
    let odd = with("odd", json!({ "annotations": "no", "title": 3, "description": null, "execution": {} }));
    let (catalog, specs) = all_of(&config(), &vec![tool("plain"), read, odd]);
    let hints = |name: &str| {
        let spec = specs.iter().find(|spec| spec.name.ends_with(name)).unwrap();
        let hints = spec.access.annotations;
        [hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint]
    };
    assert_eq!(hints("plain"), [false, true, false, true]);
    assert_eq!(hints("read"), [true, false, true, false]);
    assert!(catalog.entries["mcp__s__read"].repeatable);
    let odd = specs.iter().find(|spec| spec.name.ends_with("odd")).unwrap();
    let members: Vec<_> = odd.upstream().unwrap().definition.keys().collect();
    assert_eq!(members, ["name"], "members of the wrong type are not passed on");
    assert!(specs.iter().all(|spec| !spec.access.bufferable && spec.deadline == Duration::from_secs(7)));
}

#[test]
fn long_description_is_cut_and_injected_arguments_hidden() {
    let schema =
        json!({ "type": "object", "properties": { "session": {}, "text": {} }, "required": ["session"] });
    let long = with("long", json!({ "description": "é".repeat(MAX_DESCRIPTION), "inputSchema": schema }));
    let inject = BTreeMap::from([("session".to_owned(), Inject::SessionId)]);
    let (catalog, specs) = all_of(&ServerConfig { inject, ..config() }, &vec![long]);
    assert!(specs[0].description.len() < MAX_DESCRIPTION + 10);
    assert!(specs[0].upstream().unwrap().definition["description"].as_str().unwrap().ends_with("[…]"));
    assert_eq!(specs[0].input_schema, json!({ "type": "object", "properties": { "text": {} } }));
    assert_eq!(catalog.entries["mcp__s__long"].injected, [("session".to_owned(), Inject::SessionId)]);
}

#[test]
fn untrusted_tools_are_unlisted_and_do_not_affect_names() {
    let rename = BTreeMap::from([("held".to_owned(), "x".to_owned())]);
    let config = ServerConfig { tools: ToolRules { rename, ..ToolRules::default() }, ..config() };
    let list = vec![tool("a.b"), tool("a/b"), tool("held")];
    let (catalog, specs) = build(&config, &list, |definition| definition["name"] == "a.b");
    assert_eq!(names(&specs), ["mcp__s__a_b"]);
    assert_eq!(catalog.entries.len(), 1);
    assert!(catalog.warnings.is_empty(), "{:?}", catalog.warnings);
    let (catalog, specs) = all_of(&config, &vec![tool(INSTRUCTIONS)]);
    assert!(specs.is_empty() && catalog.warnings[0].contains("left out"), "{:?}", catalog.warnings);
}

#[test]
fn tool_with_invalid_parameter_headers_is_left_out() {
    let marked = |kind: &str| {
        json!({ "inputSchema": { "type": "object", "properties": {
            "region": { "type": kind, "x-mcp-header": "Region" } } } })
    };
    let list = vec![with("good", marked("string")), with("bad", marked("number")), tool("plain")];
    let (catalog, specs) = all_of(&config(), &list);
    assert_eq!(names(&specs), ["mcp__s__good", "mcp__s__plain"]);
    assert_eq!(catalog.warnings, [r#""bad" has an invalid x-mcp-header and is left out"#]);
    let repeats: Vec<bool> = specs.iter().map(|spec| spec.upstream().unwrap().repeats_arguments).collect();
    assert_eq!(repeats, [true, false]);
    let inject = BTreeMap::from([("region".to_owned(), Inject::SessionId)]);
    let (_, specs) = all_of(&ServerConfig { inject, ..config() }, &list);
    assert!(!specs[0].upstream().unwrap().repeats_arguments, "callers do not know injected arguments");
}
