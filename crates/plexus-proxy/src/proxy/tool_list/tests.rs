use plexus_mcp::relay::Version;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const VERSIONS: [Dialect; 5] = [
    Dialect::Session(Version::V2024_11_05),
    Dialect::Session(Version::V2025_03_26),
    Dialect::Session(Version::V2025_06_18),
    Dialect::Session(Version::V2025_11_25),
    Dialect::Modern,
];

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

/// A list with these tools and online nodes.
fn tool_list(tools: &[Value], online: Option<BTreeSet<String>>) -> ToolList {
    let tool_list = ToolList::open(None, String::new());
    take(&tool_list, tools, online);
    tool_list
}

fn take(tool_list: &ToolList, tools: &[Value], online: Option<BTreeSet<String>>) {
    let tools = tools.iter().map(raw).filter_map(Tool::read).collect();
    tool_list.update(|known, _| {
        known.tools = tools;
        known.context = VisibilityContext { online };
    });
}

fn shown(tool_list: &ToolList, dialect: Dialect) -> Vec<Map<String, Value>> {
    serde_json::from_str(&format!("[{}]", tool_list.text(dialect))).unwrap()
}

fn placement() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!("node")),
        "node:[a-c]".prop_map(Value::from),
        "[a-z]{0,6}".prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
    ]
}

fn tool() -> impl Strategy<Value = Value> {
    let extras = ("[a-z]{1,4}", any::<Option<i64>>(), any::<bool>());
    ("[a-f]{1,2}", placement(), extras, any::<bool>()).prop_map(
        |(name, placement, (title, extra, object), hint)| {
            let mut tool = json!({
                "name": name, "title": title, "inputSchema": { "type": "object" }, "extra": extra,
                "outputSchema": { "type": if object { "object" } else { "string" } },
                "annotations": { "readOnlyHint": hint },
            });
            if !placement.is_null() {
                tool["_meta"] = json!({ "plexus/placement": placement, "other": extra });
            }
            tool
        },
    )
}

fn machines() -> impl Strategy<Value = Option<BTreeSet<String>>> {
    proptest::option::of(proptest::collection::btree_set("[a-c]", 0..3))
}

proptest! {
    /// Every listed tool is one of the hub's, unchanged, and listed once.
    #[test]
    fn list_is_a_subset_of_the_hubs_list(
        tools in proptest::collection::vec(tool(), 0..12),
        online in machines(),
    ) {
        let tool_list = tool_list(&tools, online.clone());
        for dialect in VERSIONS {
            let mut names = BTreeSet::new();
            for entry in shown(&tool_list, dialect) {
                let name = entry["name"].as_str().unwrap().to_owned();
                let listed = tools.iter().rev().find(|tool| tool["name"] == name.as_str()).unwrap();
                for (member, value) in &entry {
                    prop_assert_eq!(value, &listed[member], "{} of {}", member, name);
                }
                if dialect == Dialect::Modern {
                    prop_assert_eq!(&Value::Object(entry), listed);
                }
                prop_assert!(names.insert(name), "twice");
            }
            // Tools without a placement are always visible.
            for tool in tools.iter().filter(|tool| tool["_meta"].is_null()) {
                let name = tool["name"].as_str().unwrap();
                let last = tools.iter().rev().find(|other| other["name"] == name).unwrap();
                prop_assert!(!last["_meta"].is_null() || names.contains(name), "{} is missing", name);
            }
        }
    }

    /// Clients are notified exactly when the visible names change.
    #[test]
    fn change_is_notified_exactly_when_visible_names_change(
        states in proptest::collection::vec((proptest::collection::vec(tool(), 0..6), machines()), 1..8),
    ) {
        let tool_list = tool_list(&[], None);
        let mut changes = tool_list.changes();
        let names = |tool_list: &ToolList| -> Vec<Value> {
            shown(tool_list, Dialect::Modern).into_iter().map(|tool| tool["name"].clone()).collect()
        };
        for (tools, online) in states {
            let before = names(&tool_list);
            let count = *changes.borrow_and_update();
            take(&tool_list, &tools, online);
            let notified = *changes.borrow_and_update() - count;
            prop_assert_eq!(notified, u64::from(names(&tool_list) != before));
        }
    }
}

#[test]
fn bufferable_calls_are_those_marked_in_the_list() {
    let bufferable = |mark: Value| json!({ "name": "t", "inputSchema": {}, "_meta": { BUFFERABLE: mark } });
    let add = json!({ "action": "add" });
    for (mark, arguments, expected) in [
        (json!(true), json!({}), true),
        (json!(["add"]), add.clone(), true),
        (json!(["add"]), json!({ "action": "list" }), false),
        (json!(["add"]), json!({ "action": ["add"] }), false),
        (json!(["add"]), json!(null), false),
        (json!([]), add.clone(), false),
        (json!([5]), add.clone(), false),
        (json!(false), add.clone(), false),
        (json!("add"), add.clone(), false),
        (json!(1), add.clone(), false),
    ] {
        let through = json!({ "name": "tool_call", "inputSchema": {} });
        let tool_list = tool_list(&[bufferable(mark.clone()), through], None);
        assert_eq!(tool_list.is_bufferable("t", &arguments), expected, "{mark} {arguments}");
        let wrapped = json!({ "name": "t", "arguments": arguments });
        assert_eq!(tool_list.is_bufferable("tool_call", &wrapped), expected, "{mark} {wrapped}");
        let twice = json!({ "name": "tool_call", "arguments": wrapped });
        assert!(!tool_list.is_bufferable("tool_call", &twice));
        assert!(!tool_list.is_bufferable("unknown", &add));
    }
}

#[test]
fn list_requested_before_a_refusal_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let tool_list = ToolList::open(Some(folder.path()), "mark".to_owned());
    let request = tool_list.requested.fetch_add(1, Ordering::Relaxed) + 1;
    tool_list.forget();
    let late = |tool_list: &ToolList, request: u64| {
        tool_list.update(|known, applied| {
            if request > *applied {
                known.tools = [raw(&json!({ "name": "t" }))].into_iter().filter_map(Tool::read).collect();
            }
        });
    };
    late(&tool_list, request);
    assert!(tool_list.is_empty() && !folder.path().join(FILE).exists());
    late(&tool_list, request + 1);
    assert!(!tool_list.is_empty() && folder.path().join(FILE).exists());
}
