//! A profile narrows what a token sees and calls, and never widens it.

use std::collections::BTreeSet;
use std::path::Path;

use plexus_auth::Principal;
use plexus_auth::profiles::LiveProfiles;
use plexus_tools::{Tool, UpstreamTool};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::hub::{Hub, bounded, named_upstream_tool, ready, scripted};

/// A tool of another server that returns its own name.
pub(crate) fn upstream(server: &str, tool: &str, groups: &[String], bare: bool) -> Tool {
    named_upstream_tool(UpstreamTool { groups: groups.to_vec(), bare, ..UpstreamTool::new(server, tool) })
}

pub(crate) fn write(folder: &Path, id: &str, config: &Value) {
    std::fs::create_dir_all(folder.join(id)).unwrap();
    std::fs::write(folder.join(id).join("config.json"), config.to_string()).unwrap();
}

fn names(hub: &Hub, agent: &Principal) -> BTreeSet<String> {
    hub.dispatcher.registry().visible_to(agent).tools().map(|tool| tool.spec().name.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tool_outside_the_profile_is_reported_as_missing() {
    bounded(async {
        let hub = Hub::with([scripted("qqqq_one", |_, _| async { ready("") })]).await;
        let folder = hub.dir.path().join("profiles");
        write(&folder, "small", &json!({ "enabled_tools": ["todo", "tool_call", "list_tools"] }));
        hub.follow_profiles(&LiveProfiles::open(folder));
        hub.dispatcher.registry().set_upstream("qqqq", [upstream("qqqq", "one", &[], true)]);
        let agent = hub.agent_of("ann", &["call:*"], Some("small")).await;
        assert_eq!(names(&hub, &agent).into_iter().collect::<Vec<_>>(), ["list_tools", "todo", "tool_call"]);
        for (hidden, absent) in
            [("qqqq_one", "qqqq_two"), ("mcp__qqqq__one", "mcp__qqqq__two"), ("one", "two")]
        {
            for through in [false, true] {
                let ask = async |name: &str| {
                    let error = match through {
                        false => hub.err(&agent, name, json!({})).await,
                        true => hub.err(&agent, "tool_call", json!({ "name": name })).await,
                    };
                    serde_json::to_string(&error).unwrap()
                };
                assert_eq!(ask(hidden).await.replace(hidden, absent), ask(absent).await, "{hidden}");
            }
        }
        let listed = hub.ok(&agent, "list_tools", json!({})).await;
        assert!(!format!("{listed:?}").contains("qqqq"), "{listed:?}");
        hub.ok(&agent, "todo", json!({ "action": "list" })).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_version_moves_when_a_profile_changes_and_only_then() {
    bounded(async {
        let hub = Hub::start().await;
        let folder = hub.dir.path().join("profiles");
        write(&folder, "small", &json!({ "enabled_tools": ["todo"] }));
        hub.follow_profiles(&LiveProfiles::open(folder.clone()));
        let registry = hub.dispatcher.registry();
        let agent = hub.agent_of("ann", &["call:*"], Some("small")).await;
        let versions = registry.versions();
        let before = *versions.borrow();
        assert!(registry.reload_profiles().is_empty());
        assert_eq!(*versions.borrow(), before);
        let shown = |config: &str| {
            std::fs::write(folder.join("small/config.json"), config).unwrap();
            assert_eq!(registry.reload_profiles().changed, ["small"]);
            names(&hub, &agent).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(shown(r#"{"enabled_tools": ["scratchpad", "todo"]}"#), ["scratchpad", "todo"]);
        // An invalid profile shows nothing: neither its previous tools nor all tools.
        assert_eq!(shown(r#"{"enabled_tools": ["todo"], "budgets": {}}"#), [""; 0]);
        assert_eq!(shown(r#"{"enabled_tools": ["todo"]}"#), ["todo"]);
        std::fs::remove_dir_all(folder.join("small")).unwrap();
        assert_eq!(registry.reload_profiles().removed, ["small"]);
        assert!(names(&hub, &agent).is_empty());
        assert_eq!(*versions.borrow(), before + 4);
        // A token without a profile is not narrowed by any of it.
        let free = hub.agent("bob", &["call:*"]).await;
        assert_eq!(names(&hub, &free).len(), registry.len());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn profiles_are_listed_for_an_agent_that_chooses_one() {
    bounded(async {
        let hub = Hub::start().await;
        let folder = hub.dir.path().join("profiles");
        write(&folder, "broken", &json!({ "approve": [] }));
        let full = json!({ "when_to_use": "For leaks.", "key_tools": ["list_profiles", "todo", "wrench"] });
        write(
            &folder,
            "plumber",
            &json!({ "name": "Plumber", "description": "Mends pipes.", "full_description": full }),
        );
        hub.follow_profiles(&LiveProfiles::open(folder));
        let agent = hub.agent("ann", &["call:list_profiles"]).await;
        let output = hub.ok(&agent, "list_profiles", json!({})).await;
        let text = output.text().into_owned();
        assert!(
            text.contains(
                "plumber (Plumber): Mends pipes.\n  when to use: For leaks.\n  key tools: list_profiles\n"
            ),
            "{text}"
        );
        assert!(!text.contains("todo"), "it names what its reader does not see: {text}");
        let structured = output.structured().unwrap().into_owned();
        let ids: Vec<_> =
            structured["profiles"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
        assert!(ids.contains(&json!("secretary")) && !ids.contains(&json!("broken")), "{ids:?}");
    })
    .await;
}

/// Words that clash with each other in every way that names can.
const SERVERS: [&str; 4] = ["a", "a_b", "b", "github"];
const TOOLS: [&str; 6] = ["x", "b_x", "b-x", "todo", "list-issues", "list_issues"];
const GROUPS: [&str; 3] = ["read", "write", "todo"];

fn pick<'w>(random: &mut StdRng, words: &[&'w str]) -> &'w str {
    words[random.random_range(0..words.len())]
}

/// Any way to write a tool or several.
fn pattern(random: &mut StdRng) -> String {
    let (server, tool) = (pick(random, &SERVERS), pick(random, &TOOLS));
    match random.random_range(0..10) {
        0 => "*".to_owned(),
        1 => "mcp__*".to_owned(),
        2 => format!("mcp__{server}__*"),
        3 => format!("mcp:{server}:{tool}"),
        4 => format!("mcp_{server}_{tool}"),
        5 => format!("mcp__{}__{}", server.replace('_', "-"), tool.replace('-', "_")),
        6 => format!("{}*", &tool[..1]),
        7 => pick(random, &["todo", "scratchpad", "list-tools", "tool_*", "session_info"]).to_owned(),
        8 => tool.to_owned(),
        _ => format!("mcp__{server}__{tool}"),
    }
}

pub(crate) fn profile(random: &mut StdRng) -> Value {
    let mut config = json!({});
    for list in ["enabled_tools", "subagent_tools"] {
        if random.random_bool(0.8) {
            let count = random.random_range(0..5);
            config[list] = (0..count).map(|_| pattern(random)).collect();
        }
    }
    if random.random_bool(0.5) {
        config["thin"] = json!(true);
        config["pinned"] = (0..random.random_range(0..3)).map(|_| pattern(random)).collect();
    }
    for server in SERVERS {
        if random.random_bool(0.3) {
            let groups: Vec<&str> = match random.random_bool(0.3) {
                true => vec!["*"],
                false => (0..random.random_range(0..3)).map(|_| pick(random, &GROUPS)).collect(),
            };
            config["mcp_servers"][server] = json!(groups);
        }
    }
    config
}

pub(crate) fn scopes(random: &mut StdRng) -> Vec<String> {
    let scope = |random: &mut StdRng| match random.random_range(0..6) {
        0 => "call:*".to_owned(),
        1 => "call:todo.list".to_owned(),
        2 => format!("call:mcp__{}__*", pick(random, &SERVERS)),
        3 => format!("call:{}", pick(random, &["todo", "scratchpad", "list_tools", "tool_*"])),
        4 => "call:mcp__*".to_owned(),
        _ => format!("call:mcp__{}__{}", pick(random, &SERVERS), pick(random, &TOOLS)),
    };
    (0..random.random_range(1..4)).map(|_| scope(random)).collect()
}

pub(crate) fn fill(hub: &Hub, random: &mut StdRng) {
    for server in SERVERS {
        let bare = random.random_bool(0.3);
        let tools: Vec<Tool> = TOOLS
            .iter()
            .filter(|_| random.random_bool(0.6))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|tool| {
                let groups: Vec<String> = GROUPS
                    .iter()
                    .filter(|_| random.random_bool(0.4))
                    .map(|group| (*group).to_owned())
                    .collect();
                upstream(server, tool, &groups, bare)
            })
            .collect();
        hub.dispatcher.registry().set_upstream(server, tools);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn profile_never_widens_the_view_of_a_token() {
    const PROFILES: usize = 24;
    const SCOPES: usize = 6;
    const CATALOGUES: usize = 20;
    bounded(async {
        // A failure names it; with it, the same worlds are tried again.
        let given = std::env::var_os("PLEXUS_TEST_SEED").and_then(|seed| seed.to_str()?.parse().ok());
        let seed: u64 = given.unwrap_or_else(rand::random);
        let mut random = StdRng::seed_from_u64(seed);
        let hub = Hub::start().await;
        let folder = hub.dir.path().join("profiles");
        for id in 0..PROFILES {
            write(&folder, &format!("p{id}"), &profile(&mut random));
        }
        let live = LiveProfiles::open(folder.clone());
        hub.follow_profiles(&live);
        let mut agents = Vec::new();
        for _ in 0..SCOPES {
            let scopes = scopes(&mut random);
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let free = hub.agent("ann", &scopes).await;
            let mut narrowed = Vec::new();
            for id in 0..PROFILES {
                narrowed.push(hub.agent_of("ann", &scopes, Some(&format!("p{id}"))).await);
            }
            agents.push((free, narrowed));
        }
        let (mut shown, mut hidden) = (0, 0);
        for round in 0..CATALOGUES {
            fill(&hub, &mut random);
            let registry = hub.dispatcher.registry();
            for (free, narrowed) in &agents {
                let all = registry.visible_to(free);
                for agent in narrowed {
                    let visible = registry.visible_to(agent);
                    let description =
                        || format!("seed {seed}, round {round}: {:?} {:?}", agent.profile(), agent.scopes());
                    for tool in visible.tools() {
                        let same = all.tools().find(|other| other.spec().name == tool.spec().name);
                        // The same also in its actions.
                        let same =
                            same.unwrap_or_else(|| panic!("{} is shown: {}", tool.name(), description()));
                        assert_eq!(same.spec(), tool.spec(), "{}", description());
                    }
                    let profile = live.load().find(agent.profile().unwrap()).unwrap().clone();
                    let candidates = all.candidates();
                    let (own, sub) = (profile.shown(&candidates), profile.subagent_view(&candidates));
                    assert!(sub.tools.is_subset(&own.tools), "{}", description());
                    shown += visible.len();
                    hidden += all.len() - visible.len();
                }
            }
        }
        // Neither everything nor nothing: the test is about something.
        assert!(shown > 1_000 && hidden > 1_000, "{shown} shown, {hidden} hidden");
    })
    .await;
}
