//! `plexus status`: agents, nodes, queued writes, failed calls and problems.

use plexus_testkit::{Signal, send};
use serde_json::{Value, json};

use crate::nodes::{join, start_node, wait_for_state};
use crate::outbox::{fill, open_outbox};
use crate::proxy::{Agent, add};
use crate::tampering::call;

#[tokio::test]
async fn status_of_an_empty_hub_suggests_next_steps() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let page = plexus.run(&["status"]).await;
    for line in [
        format!("hub\t{}\n", hub.url("")),
        format!("data folder\t{}\n", plexus.data_dir().display()),
        "health\tready\n".to_owned(),
        format!("database\tsqlite: {}\n", plexus.data_dir().join("plexus.db").display()),
        "agents\tnone yet: `plexus connect`".to_owned(),
        "`plexus node invite`".to_owned(),
        "queued writes\tnone on this machine\n".to_owned(),
        "failed calls\tnone recently\n".to_owned(),
        "problems\tnone\n".to_owned(),
    ] {
        assert!(page.ok().contains(&line), "{line:?} is not in {page:?}");
    }
}

#[tokio::test]
async fn status_names_agents_nodes_and_failed_calls() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let token = hub.token("codex").await;
    call(&hub, &token.token, 1).await;
    let failed = hub.mcp(&token.token).tool("todo", json!({ "action": "finish", "id": 4711 })).await;
    assert_eq!(failed["isError"], true, "{failed}");
    let page = plexus.run(&["status", "--json"]).await.json(0);
    assert_eq!((&page["running"], &page["url"]), (&json!(true), &json!(hub.url(""))), "{page}");
    assert_eq!(
        (&page["agents"][0]["name"], &page["agents"][0]["connected_here"]),
        (&json!("codex"), &json!(false))
    );
    assert!(page["agents"][0]["last_seen_at"].is_string(), "{page}");
    assert_eq!(page["nodes"][0]["name"], "local", "{page}");
    let failures = page["failures"].as_array().expect("a list");
    assert_eq!(failures.len(), 1, "{page}");
    assert_eq!((&failures[0]["actor"], &failures[0]["tool"]), (&json!("agent:codex"), &json!("todo")));
    assert_eq!(page["outbox"], json!({ "waiting": 0, "dead": 0, "oldest_at": null }));
    let person = plexus.run(&["status"]).await;
    let line = person.ok().lines().find(|line| line.starts_with("failure\t")).expect("the failed call");
    assert!(line.contains("\tagent:codex\ttodo\t"), "{line}");
    assert!(person.stdout.lines().any(|line| line.starts_with("agent\tcodex\t")), "{person:?}");

    // The JSON has the same keys without a hub.
    assert!(hub.terminate().await.success());
    let down = plexus.run(&["status", "--json"]).await.json(4);
    let keys = |page: &Value| page.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let (mut with, mut without) = (keys(&page), keys(&down));
    with.sort();
    without.sort();
    assert_eq!(with, without);
    assert_eq!(
        (&down["running"], &down["data_dir"]),
        (&json!(false), &json!(plexus.data_dir().display().to_string()))
    );
}

#[tokio::test]
async fn status_reports_queued_writes_and_dead_letters_while_the_hub_is_down() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let mut agent = Agent::start(&plexus, &[], &[]).await;
    agent.call(add("live")).await;
    hub.kill().await;
    let queued = agent.call(add("queued")).await;
    assert_eq!(queued["structuredContent"]["queued"], true, "{queued}");
    let page = plexus.run(&["status", "--json"]).await.json(4);
    assert_eq!((&page["outbox"]["waiting"], &page["outbox"]["dead"]), (&json!(1), &json!(0)), "{page}");
    assert!(page["outbox"]["oldest_at"].is_string(), "{page}");

    fill(&open_outbox(&plexus, "codex-0011aabb").await, &["one"], 1).await;
    let page = plexus.run(&["status", "--json"]).await.json(4);
    assert_eq!((&page["outbox"]["waiting"], &page["outbox"]["dead"]), (&json!(1), &json!(1)), "{page}");
    let problems = page["problems"].as_array().expect("a list");
    let whats: Vec<_> = problems.iter().map(|problem| problem["what"].as_str().expect("text")).collect();
    assert!(whats.len() == 2 && whats[0].starts_with("no hub runs on the data folder "), "{page}");
    assert_eq!(problems[1], json!({ "what": "dead letters: 1", "fix": "plexus outbox list --dead" }));
    let person = plexus.run(&["status"]).await;
    let line = person.stdout.lines().find(|line| line.starts_with("queued writes\t")).expect("the field");
    assert!(line.starts_with("queued writes\t1 waiting (oldest from 20"), "{line}");
    assert!(line.ends_with("), dead letters: 1: see `plexus outbox list`"), "{line}");
    assert!(person.stdout.lines().any(|line| line == "problems\t2"), "{person:?}");
    agent.close_input().await;
}

#[tokio::test]
async fn status_shows_a_node_that_has_stopped() {
    let (plexus, machine) = (crate::plexus(), crate::plexus());
    let hub = plexus.up().await;
    join(&plexus, &machine, &hub.url(""), "nas", &[]).await;
    let mut node = start_node(&machine, "ws");
    wait_for_state(&plexus, "nas", "online").await;
    wait_for_state(&plexus, "local", "online").await;
    let page = plexus.run(&["status"]).await;
    assert!(page.ok().contains("nodes\t2 of 2 online\n"), "{page:?}");
    send(&node, Signal::TERM);
    assert!(node.wait().await.expect("its end").success());
    wait_for_state(&plexus, "nas", "offline").await;
    let page = plexus.run(&["status"]).await;
    assert!(page.ok().contains("nodes\t1 of 2 online\n"), "{page:?}");
    assert!(page.stdout.lines().any(|line| line.starts_with("node\tnas\toffline\t")), "{page:?}");
}
