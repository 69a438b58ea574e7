use std::collections::BTreeSet;
use std::time::Duration;

use plexus_proto::node::HostedServer;
use plexus_proto::{NodeId, Timestamp};
use plexus_tools::nodes::NodeEntry;
use serde_json::{Value, json};

use super::{is_listed, specs};

fn node(name: &str) -> NodeEntry {
    NodeEntry {
        id: NodeId::new(),
        name: name.to_owned(),
        labels: Default::default(),
        online: true,
        since: None,
        store_id: None,
        draining: false,
        tools: Default::default(),
    }
}

fn server(name: &str, tools: &[&str]) -> HostedServer {
    let definition = |tool: &&str| -> serde_json::Map<String, Value> {
        let definition = json!({ "name": tool, "inputSchema": { "type": "object" } });
        serde_json::from_value(definition).unwrap()
    };
    HostedServer {
        name: name.to_owned(),
        state: "ready".to_owned(),
        tools: tools.iter().map(definition).collect(),
    }
}

fn names(machines: &[(NodeEntry, Vec<HostedServer>)], used_slugs: &[&str]) -> (Vec<String>, usize) {
    let used_slugs: BTreeSet<String> = used_slugs.iter().map(|slug| (*slug).to_owned()).collect();
    let (specs, warnings) = specs(machines, &used_slugs);
    (specs.iter().map(|spec| spec.name.to_string()).collect(), warnings.len())
}

#[test]
fn server_with_taken_name_gets_its_machines_name_added() {
    let (old, new) = (node("nas"), node("my-vps"));
    let files = || vec![server("files", &["mcp__files__read"])];
    let machines = [(new.clone(), files()), (old.clone(), files())];
    let expected = ["mcp__files__read", "mcp__files_my_vps__read"];
    assert_eq!(names(&machines, &[]).0, expected, "the older server keeps its name, whatever the order");
    assert_eq!(names(&machines, &["files"]).0, ["mcp__files_nas__read", "mcp__files_my_vps__read"]);
    let (left, warnings) = names(&[(old, files())], &["files", "files_nas"]);
    assert!(left.is_empty() && warnings == 1);
}

#[test]
fn machine_cannot_list_tools_of_other_servers() {
    let tools = ["todo", "mcp__github__push", "mcp__files__", "mcp__files__ok", "mcp__Files__x"];
    let (names_, warnings) = names(&[(node("nas"), vec![server("files", &tools)])], &[]);
    assert_eq!(names_, ["mcp__files__ok"]);
    assert_eq!(warnings, 4);
    for bad in ["plexus", "a__b", "a-b", "", &"x".repeat(60)] {
        let tool = format!("mcp__{bad}__x");
        let (spec, _) = names(&[(node("nas"), vec![server(bad, &[&tool])])], &[]);
        assert!(spec.iter().all(|name| name.starts_with("mcp__plexus_nas__")), "{bad}: {spec:?}");
    }
}

#[test]
fn listed_servers_and_tools_are_bounded() {
    let tools: Vec<String> = (0..1_500).map(|n| format!("mcp__files__t{n}")).collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    assert_eq!(names(&[(node("nas"), vec![server("files", &tools)])], &[]).0.len(), 1_000);
    let servers = (0..150).map(|n| server(&format!("s{n}"), &[&format!("mcp__s{n}__x")])).collect();
    assert_eq!(names(&[(node("nas"), servers)], &[]).0.len(), 100);
}

#[test]
fn servers_of_an_offline_machine_stay_listed_for_a_day() {
    let since: Timestamp = "2026-11-01T00:00:00Z".parse().unwrap();
    let later = |hours: u64| since.checked_add(Duration::from_secs(hours * 3600)).unwrap();
    let up = NodeEntry { since: Some(since), ..node("nas") };
    let offline_since = NodeEntry { online: false, ..up.clone() };
    assert!(
        is_listed(&up, later(1_000))
            && is_listed(&offline_since, later(23))
            && !is_listed(&offline_since, later(25))
    );
}
