use plexus_proto::NodeId;
use plexus_proto::api::{Node, Status};
use serde_json::{Value, json};

use super::{HubState, QueuedWrites, READY, RECONNECT_SECONDS, StatusPage};

/// The status of a hub without problems that has run for a long time.
fn healthy() -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "instance_id": "default",
        "started_at": "2026-03-01T12:00:00Z",
        "uptime_seconds": 3600,
        "database": "sqlite",
        "durability": "process",
        "tools": 20,
        "upstreams": {
            "total": 4, "ready": 1, "starting": 1, "idle": 1, "disabled": 1,
            "down": 0, "failed": 0, "invalid": 0, "needs_login": 0, "quarantined": 0
        },
        "mcp_sessions": 0,
        "calls_in_flight": 0,
        "audit": { "head": null, "intact_at_start": true },
    })
}

fn node(name: &str, state: &str, problem: Option<&str>) -> Node {
    let node = json!({
        "id": NodeId::new(), "name": name, "state": state, "problem": problem, "draining": false, "labels": {},
        "os": null, "arch": null, "hostname": null, "version": null, "transport": null, "rtt_ms": null,
        "last_seen_at": null, "created_at": "2026-03-01T12:00:00Z", "tools": [], "mcp_servers": [], "profiles": [],
        "in_flight": 0
    });
    serde_json::from_value(node).unwrap()
}

fn page(status: Value, health: &str) -> StatusPage {
    let status: Status = serde_json::from_value(status).unwrap();
    let hub = HubState::Up {
        url: "http://127.0.0.1:7420".to_owned(),
        folder: None,
        health: health.to_owned(),
        status: Box::new(status),
        raw: Value::Null,
    };
    StatusPage { hub, agents: None, nodes: None, failures: None, outbox: None, problems: Vec::new() }
}

/// The problems of a page, with their fixes.
fn problems(mut page: StatusPage) -> Vec<(String, String)> {
    page.find_problems();
    page.problems.into_iter().map(|problem| (problem.what, problem.fix)).collect()
}

#[test]
fn each_problem_of_the_hub_is_named_with_its_fix() {
    assert_eq!(problems(page(healthy(), READY)), []);
    let not_ready = problems(page(healthy(), "not ready: the database does not answer"));
    let expected = ("the hub is not ready: the database does not answer", "plexus doctor");
    assert_eq!(not_ready, [(expected.0.to_owned(), expected.1.to_owned())]);

    for (pointer, value, what, fix) in [
        (
            "/version",
            json!("0.0.1"),
            "the hub has version 0.0.1, this program ",
            "restart the hub with this version",
        ),
        ("/audit/intact_at_start", json!(false), "the audit chain did not match", "plexus audit verify"),
        ("/upstreams/down", json!(2), "MCP servers that do not work: 2", "plexus upstream list"),
        ("/upstreams/failed", json!(1), "MCP servers that do not work: 1", "plexus upstream list"),
        ("/upstreams/invalid", json!(1), "MCP servers that do not work: 1", "plexus upstream list"),
        ("/upstreams/needs_login", json!(1), "MCP servers that do not work: 1", "plexus upstream list"),
        ("/upstreams/quarantined", json!(3), "tools in quarantine: 3", "plexus upstream list"),
    ] {
        let mut status = healthy();
        *status.pointer_mut(pointer).unwrap() = value;
        let found = problems(page(status, READY));
        assert_eq!(found.len(), 1, "{pointer}: {found:?}");
        assert!(found[0].0.starts_with(what) && found[0].1.starts_with(fix), "{pointer}: {found:?}");
    }
    let mut status = healthy();
    status["broken_tools"] = json!(1);
    assert_eq!(problems(page(status, READY))[0].0, "broken custom tools: 1");
}

#[test]
fn unreachable_nodes_are_problems_once_they_had_time_to_reconnect() {
    let nodes = || {
        vec![
            node("local", "online", None),
            node("new", "new", None),
            node("my nas", "offline", None),
            node("attic", "unwell", Some("its disk is full")),
        ]
    };
    let after = |seconds: u64| {
        let mut status = healthy();
        status["uptime_seconds"] = json!(seconds);
        problems(StatusPage { nodes: Some(nodes()), ..page(status, READY) })
    };
    assert_eq!(after(RECONNECT_SECONDS - 1), []);
    let expected = [
        ("the node my nas does not answer", "plexus node show 'my nas'"),
        ("the node attic does not answer: its disk is full", "plexus node show attic"),
    ];
    assert_eq!(after(RECONNECT_SECONDS), expected.map(|(what, fix)| (what.to_owned(), fix.to_owned())));
}

#[test]
fn dead_letters_are_a_problem_and_waiting_writes_are_not() {
    let with = |waiting, dead| {
        let outbox = Some(QueuedWrites { waiting, dead, oldest_at: None });
        problems(StatusPage { outbox, ..page(healthy(), READY) })
    };
    assert_eq!(with(7, 0), []);
    assert_eq!(with(7, 2), [("dead letters: 2".to_owned(), "plexus outbox list --dead".to_owned())]);
}
