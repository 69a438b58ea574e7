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

/// With these tools and machines, as if the hub had said so.
fn lists(tools: &[Value], online: Option<BTreeSet<String>>) -> Lists {
    let lists = Lists::open(None, String::new());
    take(&lists, tools, online);
    lists
}

fn take(lists: &Lists, tools: &[Value], online: Option<BTreeSet<String>>) {
    let tools = tools.iter().map(raw).filter_map(Tool::read).collect();
    lists.update(|known, _| {
        known.tools = tools;
        known.context = Context { online };
    });
}

fn shown(lists: &Lists, dialect: Dialect) -> Vec<Map<String, Value>> {
    serde_json::from_str(&format!("[{}]", lists.text(dialect))).unwrap()
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
    /// Every entry is one of the hub's, with nothing added or changed, and each at most once.
    #[test]
    fn a_list_is_a_subset_of_what_the_hub_listed(
        tools in proptest::collection::vec(tool(), 0..12),
        online in machines(),
    ) {
        let lists = lists(&tools, online.clone());
        for dialect in VERSIONS {
            let mut names = BTreeSet::new();
            for entry in shown(&lists, dialect) {
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
            // What runs on no machine is never left out.
            for tool in tools.iter().filter(|tool| tool["_meta"].is_null()) {
                let name = tool["name"].as_str().unwrap();
                let last = tools.iter().rev().find(|other| other["name"] == name).unwrap();
                prop_assert!(!last["_meta"].is_null() || names.contains(name), "{} is missing", name);
            }
        }
    }

    /// A change is told when other names are visible, and only then.
    #[test]
    fn a_change_is_told_exactly_when_other_names_are_visible(
        states in proptest::collection::vec((proptest::collection::vec(tool(), 0..6), machines()), 1..8),
    ) {
        let lists = lists(&[], None);
        let mut changes = lists.changes();
        let names = |lists: &Lists| -> Vec<Value> {
            shown(lists, Dialect::Modern).into_iter().map(|tool| tool["name"].clone()).collect()
        };
        for (tools, online) in states {
            let before = names(&lists);
            let count = *changes.borrow_and_update();
            take(&lists, &tools, online);
            let told = *changes.borrow_and_update() - count;
            prop_assert_eq!(told, u64::from(names(&lists) != before));
        }
    }
}

#[test]
fn what_may_be_kept_is_what_the_list_says() {
    let bufferable = |mark: Value| json!({ "name": "t", "inputSchema": {}, "_meta": { BUFFERABLE: mark } });
    let add = json!({ "action": "add" });
    for (mark, arguments, kept) in [
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
        let lists = lists(&[bufferable(mark.clone()), through], None);
        assert_eq!(lists.is_bufferable("t", &arguments), kept, "{mark} {arguments}");
        let wrapped = json!({ "name": "t", "arguments": arguments });
        assert_eq!(lists.is_bufferable("tool_call", &wrapped), kept, "{mark} {wrapped}");
        let twice = json!({ "name": "tool_call", "arguments": wrapped });
        assert!(!lists.is_bufferable("tool_call", &twice));
        assert!(!lists.is_bufferable("unknown", &add));
    }
}

#[test]
fn a_list_that_was_asked_for_before_the_credential_was_refused_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let lists = Lists::open(Some(folder.path()), "mark".to_owned());
    let asked = lists.asked.fetch_add(1, Ordering::Relaxed) + 1;
    lists.forget();
    let late = |lists: &Lists, asked: u64| {
        lists.update(|known, taken| {
            if asked > *taken {
                known.tools = [raw(&json!({ "name": "t" }))].into_iter().filter_map(Tool::read).collect();
            }
        });
    };
    late(&lists, asked);
    assert!(lists.is_empty() && !folder.path().join(FILE).exists());
    late(&lists, asked + 1);
    assert!(!lists.is_empty() && folder.path().join(FILE).exists());
}
