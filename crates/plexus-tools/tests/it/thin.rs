//! A thin profile lists little, and changes nothing of what can be called.

use std::sync::Arc;

use plexus_auth::Principal;
use plexus_auth::profiles::LiveProfiles;
use plexus_proto::tool_name;
use plexus_tools::{TokenCounter, cost};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::hub::{Hub, bounded, keyed};
use crate::profiles::{fill, profile, scopes, upstream, write};

fn listed(hub: &Hub, agent: &Principal) -> Vec<String> {
    let visible = hub.dispatcher.registry().visible_to(agent);
    visible.listed_tools().map(|tool| tool.name().to_owned()).collect()
}

/// A hub with a server of two tools and a profile that lists one of them.
async fn hub() -> Hub {
    let hub = Hub::start().await;
    let folder = hub.dir.path().join("profiles");
    let enabled = json!(["todo", "mcp__files__*"]);
    write(
        &folder,
        "thin",
        &json!({ "enabled_tools": enabled, "thin": true, "pinned": ["mcp__files__read"] }),
    );
    write(&folder, "whole", &json!({ "enabled_tools": enabled }));
    hub.follow_profiles(&LiveProfiles::open(folder));
    let tools = [upstream("files", "read", &[], false), upstream("files", "write", &[], false)];
    hub.dispatcher.registry().set_upstream("files", tools);
    hub
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unlisted_tool_is_found_called_and_recorded_once() {
    bounded(async {
        let hub = hub().await;
        let agent = hub.agent_of("ann", &["call:*"], Some("thin")).await;
        assert_eq!(listed(&hub, &agent), ["mcp__files__read", "tool_call", "tool_search"]);
        let search_result =
            hub.ok(&agent, "tool_search", json!({ "query": "write files", "limit": 1 })).await;
        let search_result = search_result.structured().unwrap().into_owned();
        assert_eq!(search_result["tools"][0]["name"], "mcp__files__write", "{search_result}");
        assert_eq!(search_result["tools"][0]["input_schema"], json!({ "type": "object" }), "{search_result}");
        let nothing = hub.ok(&agent, "tool_search", json!({ "query": "zzz" })).await;
        assert_eq!(nothing.text(), "Nothing fits. Try other words.", "there is no list_tools here");
        let full_list = hub.agent("bob", &["call:*"]).await;
        let nothing = hub.ok(&full_list, "tool_search", json!({ "query": "zzz" })).await;
        assert_eq!(nothing.text(), "Nothing fits. Try other words, or list_tools for all.");
        let before = hub.all_audited().await.len();
        let call = keyed("tool_call", json!({ "name": "mcp__files__write", "arguments": {} }), "k");
        let reply = hub.dispatcher.call(agent.clone(), call).await;
        assert_eq!(reply.tool, "mcp__files__write");
        assert_eq!(reply.result.unwrap().text(), "mcp__files__write");
        let audited = hub.all_audited().await;
        assert_eq!((audited.len() - before, audited[before].tool.as_str()), (1, "mcp__files__write"));
        // The key is that of the tool: called by its own name, it is the same call.
        let reply = hub.dispatcher.call(agent.clone(), keyed("mcp__files__write", json!({}), "k")).await;
        assert!(reply.replayed, "{reply:?}");
        let missing = hub.err(&agent, "tool_call", json!({ "name": "scratchpad" })).await;
        assert_eq!(missing.message, "Unknown tool: scratchpad");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caller_without_tool_search_gets_the_full_list() {
    bounded(async {
        let hub = hub().await;
        let full_list = ["mcp__files__read", "mcp__files__write"];
        for more in [None, Some("tool_search"), Some("tool_call")] {
            let mut scopes = vec!["call:mcp__files__*".to_owned()];
            scopes.extend(more.map(|tool| format!("call:{tool}")));
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let agent = hub.agent_of("ann", &scopes, Some("thin")).await;
            assert_eq!(listed(&hub, &agent), [full_list.as_slice(), more.as_slice()].concat());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thin_profile_costs_less_and_says_what_it_saves() {
    bounded(async {
        let hub = hub().await;
        let counter = TokenCounter::default();
        let of = async |profile: &str| {
            let agent = hub.agent_of("ann", &["call:*"], Some(profile)).await;
            cost(&counter, &hub.dispatcher.registry().visible_to(&agent), &[]).await.unwrap()
        };
        let (full_list, thin) = (of("whole").await, of("thin").await);
        assert_eq!((full_list.tools.len(), thin.tools.len(), full_list.unlisted), (3, 3, None));
        let tokens = |name: &str| full_list.tools.iter().find(|tool| tool.name == name).unwrap().tokens;
        let unlisted = thin.unlisted.unwrap();
        assert_eq!((unlisted.tools, unlisted.tokens), (2, tokens("mcp__files__write") + tokens("todo")));
        for cost in [&full_list, &thin] {
            assert!(cost.tools.is_sorted_by_key(|tool| std::cmp::Reverse(tool.tokens)), "{cost:?}");
            assert_eq!(cost.tokens, cost.tools.iter().map(|tool| tool.tokens).sum::<u64>());
            assert_eq!(cost.tokens, cost.servers.iter().map(|server| server.tokens).sum::<u64>());
            let shares: f64 = cost.servers.iter().map(|server| server.share).sum();
            assert!((99.0..101.0).contains(&shares), "{cost:?}");
        }
        assert_eq!(full_list.servers[0].server, None, "the schema of `todo` is the longest: {full_list:?}");
    })
    .await;
}

/// What a call came to, whatever the way that it took.
async fn outcome(hub: &Hub, agent: &Arc<Principal>, tool: &str, arguments: Value) -> String {
    let reply = hub.call(agent, tool, arguments).await;
    match reply.result {
        Ok(output) => format!("{}: {}", reply.tool, output.text()),
        Err(error) => format!("{}: {:?} {}", reply.tool, error.code, error.text()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_tool_call_goes_exactly_what_goes_without_it() {
    const WORLDS: usize = 40;
    bounded(async {
        let given = std::env::var_os("PLEXUS_TEST_SEED").and_then(|seed| seed.to_str()?.parse().ok());
        let seed: u64 = given.unwrap_or_else(rand::random);
        let mut random = StdRng::seed_from_u64(seed);
        let hub = Hub::start().await;
        let folder = hub.dir.path().join("profiles");
        for id in 0..WORLDS {
            write(&folder, &format!("p{id}"), &profile(&mut random));
        }
        hub.follow_profiles(&LiveProfiles::open(folder));
        let (mut called, mut refused) = (0, 0);
        for world in 0..WORLDS {
            fill(&hub, &mut random);
            let mut scopes = scopes(&mut random);
            scopes.extend(["call:tool_call".to_owned(), "call:tool_search".to_owned()]);
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let agent = hub.agent_of("ann", &scopes, Some(&format!("p{world}"))).await;
            let visible = hub.dispatcher.registry().visible_to(&agent);
            if visible.resolve(tool_name::CALL).is_err() {
                continue;
            }
            // Everything that anybody sees, listed or not, and what nobody does.
            let all = hub.dispatcher.registry().visible_to(&hub.admin());
            let mut names: Vec<String> = all.tools().map(|tool| tool.spec().name.to_string()).collect();
            names.retain(|name| name != tool_name::CALL && random.random_bool(0.5));
            names.push("mcp__nobody__x".to_owned());
            for name in names {
                let direct = outcome(&hub, &agent, &name, json!({})).await;
                let through = outcome(&hub, &agent, "tool_call", json!({ "name": name })).await;
                assert_eq!(direct, through, "seed {seed}, world {world}: {name}");
                match direct.contains("UnknownTool") {
                    true => refused += 1,
                    false => called += 1,
                }
            }
        }
        assert!(called > 10 && refused > 10, "{called} called, {refused} refused");
    })
    .await;
}
