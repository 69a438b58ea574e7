//! Client commands with a running hub: output streams and exit codes.

use std::time::{Duration, Instant};

use plexus_testkit::{HubProcess, Plexus};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

async fn running() -> (Plexus, HubProcess) {
    // Without the local node, whose link would be one more event.
    let plexus = crate::plexus().with("PLEXUS_NODES_LOCAL", "false".to_owned());
    let hub = plexus.up().await;
    (plexus, hub)
}

/// The items of a JSON list, which also has the cursor of the next page or null.
fn items(list: &Value) -> &Vec<Value> {
    let keys: Vec<_> = list.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["items", "next"], "{list}");
    list["items"].as_array().expect("items")
}

#[tokio::test]
async fn created_token_is_alone_on_standard_output() {
    let (plexus, hub) = running().await;
    let printed = plexus.run(&["token", "create", "--kind", "agent", "--name", "codex"]).await;
    let token = printed.ok().strip_suffix('\n').expect("a line").to_owned();
    assert_eq!(token.split('.').count(), 3, "{token}");
    assert!(!token.contains(char::is_whitespace), "{token}");
    assert!(printed.stderr.contains("agent token codex"), "{printed:?}");
    assert!(!printed.stderr.contains(&token), "the token is on the other stream too");
    hub.api_as(&token, "/api/v1/tools").await;

    let args = ["token", "create", "--kind", "agent", "--name", "claude", "--scope", "call:todo"];
    let program =
        plexus.run(&[&args[..], &["--ttl", "12h", "--profile", "developer", "--json"]].concat()).await;
    assert_eq!(program.stderr, "", "{program:?}");
    let made = program.json(0);
    for key in ["token", "jti", "expires_at"] {
        assert!(made[key].as_str().is_some_and(|text| !text.is_empty()), "{key} of {made}");
    }
    assert_eq!((&made["scopes"], &made["profile"]), (&json!(["call:todo"]), &json!("developer")), "{made}");
    let tools = hub.api_as(made["token"].as_str().expect("a token"), "/api/v1/tools").await;
    assert_eq!(items(&tools).len(), 1, "{tools}");

    let list = plexus.run(&["token", "list", "--json"]).await.json(0);
    let mut names: Vec<_> =
        items(&list).iter().map(|token| token["name"].as_str().expect("a name")).collect();
    names.sort_unstable();
    assert_eq!(names, ["claude", "codex", "local"]);
    assert!(items(&list).iter().all(|token| token.get("token").is_none()), "{list}");
    // In a pipe: one line per token, fields separated by tabs, no heading.
    let lines = plexus.run(&["token", "list"]).await;
    assert_eq!(lines.ok().lines().count(), 3, "{lines:?}");
    assert!(lines.ok().lines().all(|line| line.split('\t').count() == 9), "{lines:?}");
}

#[tokio::test]
async fn revoked_token_is_refused_within_a_second() {
    let (plexus, hub) = running().await;
    let made = plexus.run(&["token", "create", "--kind", "agent", "--name", "codex", "--json"]).await.json(0);
    let (token, jti) = (made["token"].as_str().expect("a token"), made["jti"].as_str().expect("an id"));
    // Also while the token is in the cache of verified tokens and has an open stream.
    let (session, _) = hub.mcp(token).initialize("2025-11-25").await;
    let mut stream = session.get_stream().await;
    plexus.run_with(&["tools", "list"], &[("PLEXUS_TOKEN", token)]).await.ok();

    let revoked = plexus.run(&["token", "revoke", jti]).await;
    assert_eq!(revoked.ok(), format!("Revoked agent token codex ({jti}).\n"));
    let started = Instant::now();
    while hub.mcp(token).modern("tools/list", json!({})).await.status != 401 {
        assert!(started.elapsed() < Duration::from_secs(1), "still accepted");
        tokio::task::yield_now().await;
    }
    while stream.next().await.is_some() {}
    assert!(started.elapsed() < Duration::from_secs(5), "its stream went on for {:?}", started.elapsed());
    let refused = plexus.run_with(&["tools", "list"], &[("PLEXUS_TOKEN", token)]).await;
    assert!(refused.failed(5).contains("revoked"), "{refused:?}");

    let active = plexus.run(&["token", "list", "--json"]).await.json(0);
    assert!(items(&active).iter().all(|token| token["jti"] != jti), "{active}");
    let all = plexus.run(&["token", "list", "--all", "--json"]).await.json(0);
    let revoked_token = items(&all).iter().find(|token| token["jti"] == jti).expect("the revoked one");
    assert!(revoked_token["revoked_at"].is_string(), "{revoked_token}");
    // Revoking again succeeds; an unknown token is an error.
    assert_eq!(plexus.run(&["token", "revoke", jti, "--json"]).await.json(0)["jti"], jti);
    let unknown = plexus.run(&["token", "revoke", "01890a5d-ac96-774b-bcce-b302099a8057"]).await;
    assert!(unknown.failed(1).contains("no such token"), "{unknown:?}");
}

#[tokio::test]
async fn tools_are_listed_described_and_called() {
    let (plexus, _hub) = running().await;
    let list = plexus.run(&["tools", "list", "--json"]).await.json(0);
    let names: Vec<_> = items(&list).iter().map(|tool| tool["name"].as_str().expect("a name")).collect();
    let all = [
        "code_exec",
        "filesystem",
        "image_view",
        "list_profiles",
        "list_tools",
        "mcp_status",
        "reload_tools",
        "scratchpad",
        "session_info",
        "ssh_exec",
        "system_info",
        "terminal",
        "todo",
        "tool_call",
        "tool_search",
    ];
    assert_eq!(names, all);
    let lines = plexus.run(&["tools", "list"]).await;
    let first: Vec<_> = lines.ok().lines().map(|line| line.split('\t').next().unwrap_or_default()).collect();
    assert_eq!(first, names);

    let page = plexus.run(&["tools", "list", "--json", "--limit", "2"]).await.json(0);
    assert_eq!(items(&page).len(), 2);
    let cursor = page["next"].as_str().expect("a cursor");
    let rest = plexus.run(&["tools", "list", "--json", "--cursor", cursor]).await.json(0);
    assert_eq!((items(&rest).len(), &rest["next"]), (all.len() - 2, &Value::Null));

    let shown = plexus.run(&["tools", "show", "todo", "--json"]).await.json(0);
    assert_eq!(shown["input_schema"]["type"], "object", "{shown}");
    assert!(plexus.run(&["tools", "show", "todo"]).await.ok().contains("Arguments (JSON Schema)"));
    let described = plexus.run(&["tools", "describe", "todo"]).await;
    assert_eq!(described.ok(), plexus.run(&["tools", "show", "todo"]).await.ok());
    let unknown = plexus.run(&["tools", "show", "tood"]).await;
    assert!(unknown.failed(1).contains("todo"), "no suggestion: {unknown:?}");

    let add = ["tools", "call", "todo", "--arg", "action=add", "--session", "work"];
    let called = plexus.run(&[&add[..], &["--arg", "text=buy milk"]].concat()).await;
    assert_eq!(called.ok(), "[ ] 1. buy milk\n");
    let once = ["--arg", "text=once", "--idempotency-key", "k1"];
    for replayed in [false, true] {
        let called = plexus.run(&[&add[..], &once, &["--json"]].concat()).await.json(0);
        assert_eq!((&called["success"], &called["replayed"]), (&json!(true), &json!(replayed)), "{called}");
    }
    let list = r#"{"action": "list"}"#;
    let called = plexus.run(&["tools", "call", "todo", "--json-args", list, "--session", "work"]).await;
    assert_eq!(called.ok(), "[ ] 1. buy milk\n[ ] 2. once\n");

    // A tool's own error is printed as its output, and the exit code is 1.
    let failed = plexus.run(&["tools", "call", "todo", "--arg", "action=remove", "--arg", "id=99"]).await;
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stdout.contains("no to-do 99"), "{failed:?}");
    assert!(failed.stderr.contains("plexus audit show "), "{failed:?}");
    let wrong = plexus.run(&["tools", "call", "todo", "--arg", "acton=list"]).await;
    assert!(wrong.failed(1).contains("action"), "{wrong:?}");
}

#[tokio::test]
async fn sessions_are_listed_shown_and_followed() {
    let (plexus, hub) = running().await;
    let token = hub.token("codex").await;
    for number in 0..30 {
        let arguments = json!({ "action": "add", "text": format!("step {number}") });
        hub.mcp(&token.token).tool("todo", arguments).await;
    }
    let list = plexus.run(&["sessions", "list", "--json"]).await.json(0);
    let session = &items(&list)[0];
    assert_eq!((&session["owner"], &session["last_seq"]), (&json!("agent:codex"), &json!(60)), "{session}");
    let id = session["id"].as_str().expect("an id");
    assert!(plexus.run(&["sessions", "list"]).await.ok().starts_with(id));

    let shown =
        plexus.run(&["sessions", "show", id, "--json", "--limit", "10", "--after", "5"]).await.json(0);
    let events = shown["events"].as_array().expect("events");
    let numbers: Vec<_> = events.iter().map(|event| event["seq"].as_i64().expect("a number")).collect();
    assert_eq!(numbers, (6..=15).collect::<Vec<_>>());
    assert_eq!((&shown["id"], &shown["next"]), (&json!(id), &json!("15")), "{shown}");
    let printed = plexus.run(&["sessions", "show", id, "--limit", "100"]).await;
    assert!(printed.ok().contains("step 29"), "{printed:?}");

    let stats = plexus.run(&["sessions", "stats", "--json"]).await.json(0);
    assert_eq!(items(&stats)[0]["calls"]["total"], 30, "{stats}");
    let table = plexus.run(&["sessions", "stats"]).await;
    assert!(table.ok().starts_with(id), "{table:?}");
    let one = plexus.run(&["sessions", "stats", id, "--json"]).await.json(0);
    assert_eq!(one["calls"]["tools"][0]["tool"], "todo", "{one}");
    let printed = plexus.run(&["sessions", "stats", id]).await;
    assert!(printed.ok().contains("queued writes") && printed.ok().contains("todo"), "{printed:?}");

    let tail = plexus.run(&["sessions", "tail", id, "-n", "3", "--json"]).await;
    let last: Vec<Value> = tail.ok().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let numbers: Vec<_> = last.iter().map(|event| event["seq"].as_i64().expect("a number")).collect();
    assert_eq!(numbers, [58, 59, 60]);

    // Following continues with new events, also after a restart of the hub.
    let mut follow = plexus.spawn(&["sessions", "tail", id, "-f", "-n", "1", "--json"]);
    let mut lines = BufReader::new(follow.stdout.take().expect("its output")).lines();
    let mut next = async || {
        let line = tokio::time::timeout(Duration::from_secs(15), lines.next_line()).await;
        let line = line.expect("an event in time").expect("its output").expect("an event");
        serde_json::from_str::<Value>(&line).expect("JSON")["seq"].as_i64().expect("a number")
    };
    assert_eq!(next().await, 60);
    hub.mcp(&token.token).tool("todo", json!({ "action": "list" })).await;
    assert_eq!((next().await, next().await), (61, 62));
    let address = hub.url("").trim_start_matches("http://").to_owned();
    hub.kill().await;
    let hub = plexus.up_with(&["--listen", &address]).await;
    hub.mcp(&token.token).tool("todo", json!({ "action": "list" })).await;
    assert_eq!((next().await, next().await), (63, 64));

    let unknown = plexus.run(&["sessions", "show", "01890a5d-ac96-774b-bcce-b302099a8057"]).await;
    assert!(unknown.failed(1).contains("no such session"), "{unknown:?}");
    // A hub that was killed leaves its address file behind.
    hub.kill().await;
    assert_eq!(plexus.run(&["sessions", "list"]).await.code, Some(4));
}

#[tokio::test]
async fn events_of_all_sessions_are_shown_and_followed() {
    let (plexus, hub) = running().await;
    let (ann, bob) = (hub.token("ann").await, hub.token("bob").await);
    for token in [&ann, &bob] {
        hub.mcp(&token.token).tool("todo", json!({ "action": "list" })).await;
    }
    let positions = |text: &str| -> Vec<i64> {
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        events.map(|event| event["pos"].as_i64().expect("a position")).collect()
    };
    let events = async |args: &[&str]| plexus.run(&[&["events", "--json"], args].concat()).await;
    assert_eq!(positions(events(&[]).await.ok()), [1, 2, 3, 4]);
    assert_eq!(positions(events(&["-n", "1"]).await.ok()), [4]);
    assert_eq!(positions(events(&["--after", "2"]).await.ok()), [3, 4]);
    assert_eq!(positions(events(&["--after", "0", "--kind", "tool_call"]).await.ok()), [2, 4]);
    // As text: one line per event, with its owner. An agent sees only its own events.
    let lines = plexus.run_with(&["events"], &[("PLEXUS_TOKEN", &bob.token)]).await;
    let line = lines.ok().lines().last().expect("a line").trim().to_owned();
    assert!(line.starts_with("4  ") && line.contains("  tool_call     agent:bob  todo ok"), "{line}");
    assert_eq!(lines.ok().lines().count(), 2, "{lines:?}");
    assert!(events(&["--after", "99"]).await.failed(1).contains("beyond the newest"));

    let mut follow = plexus.spawn(&["events", "-f", "--after", "3", "--json"]);
    let mut lines = BufReader::new(follow.stdout.take().expect("its output")).lines();
    let mut next = async || {
        let line = tokio::time::timeout(Duration::from_secs(15), lines.next_line()).await;
        positions(&line.expect("an event in time").expect("its output").expect("an event"))
    };
    assert_eq!(next().await, [4]);
    hub.mcp(&ann.token).tool("todo", json!({ "action": "list" })).await;
    assert_eq!((next().await, next().await), (vec![5], vec![6]));
}

#[tokio::test]
async fn audit_is_listed_and_shown() {
    let (plexus, hub) = running().await;
    let token = hub.token("codex").await;
    hub.mcp(&token.token).tool("todo", json!({ "action": "add", "text": "a" })).await;
    hub.mcp(&token.token).tool("scratchpad", json!({ "action": "list" })).await;
    let list = plexus.run(&["audit", "list", "--json"]).await.json(0);
    let tools: Vec<_> = items(&list).iter().map(|call| call["tool"].as_str().expect("a tool")).collect();
    assert_eq!(tools[..2], ["scratchpad", "todo"]);
    let filtered = plexus.run(&["audit", "list", "--json", "--tool", "todo"]).await.json(0);
    let [call] = items(&filtered).as_slice() else { panic!("{filtered}") };
    let none = plexus.run(&["audit", "list", "--json", "--actor", "agent:nobody"]).await.json(0);
    assert_eq!(none, json!({ "items": [], "next": null }));

    let id = call["call_id"].as_str().expect("an id");
    let shown = plexus.run(&["audit", "show", id, "--json"]).await.json(0);
    assert_eq!((&shown["arguments"]["text"], &shown["outcome"]), (&json!("a"), &json!("ok")), "{shown}");
    assert!(plexus.run(&["audit", "show", id]).await.ok().contains("actor\tagent:codex\n"));
    assert!(plexus.run(&["audit", "verify"]).await.ok().starts_with("Intact: "));
}

#[tokio::test]
async fn hub_is_found_by_flag_variable_or_folder() {
    let (plexus, hub) = running().await;
    let url = hub.url("");
    let status = plexus.run(&["status", "--json"]).await.json(0);
    assert_eq!((&status["database"], &status["tools"]), (&json!("sqlite"), &json!(15)), "{status}");
    assert!(plexus.run(&["status"]).await.ok().starts_with(&format!("hub\t{url}\n")));

    // A second home has no data folder and no token, so it must be given both.
    let other = crate::plexus();
    let token = hub.admin_token();
    let unnamed = other.run(&["status", "--hub", &url]).await;
    assert!(unnamed.failed(5).contains("PLEXUS_TOKEN"), "{unnamed:?}");
    other.run_with(&["status", "--hub", &url], &[("PLEXUS_TOKEN", &token)]).await.ok();
    other.run_with(&["status"], &[("PLEXUS_HUB", &url), ("PLEXUS_TOKEN", &token)]).await.ok();
    let folder = hub.data_dir().to_str().expect("UTF-8");
    other.run(&["status", "--data-dir", folder]).await.ok();
    other.run_with(&["status"], &[("PLEXUS_DATA_DIR", folder)]).await.ok();
    // The flag has precedence over the variable.
    let unreachable = [("PLEXUS_HUB", "http://127.0.0.1:1"), ("PLEXUS_TOKEN", token.as_str())];
    other.run_with(&["status", "--hub", &url], &unreachable).await.ok();
    assert_eq!(other.run_with(&["status"], &unreachable).await.code, Some(4));
}

#[tokio::test]
async fn failures_have_documented_exit_codes() {
    let (plexus, hub) = running().await;
    let agent = hub.token("codex").await.token;
    let as_agent = [("PLEXUS_TOKEN", agent.as_str())];
    let codes = [
        (plexus.run(&["status"]).await, 0),
        (plexus.run(&["tools", "call", "no_such_tool"]).await, 1),
        (plexus.run(&["frobnicate"]).await, 2),
        (plexus.run(&["token", "create", "--kind", "agent"]).await, 2),
        (plexus.run(&["token", "create", "--kind", "agent", "--name", "x", "--ttl", "soon"]).await, 2),
        (plexus.run(&["sessions", "show", "not-an-id"]).await, 2),
        (plexus.run(&["sessions", "tail", "not-an-id"]).await, 2),
        (plexus.run(&["events", "--session", "not-an-id"]).await, 2),
        (plexus.run(&["audit", "list", "--session", "not-an-id"]).await, 2),
        (plexus.run(&["tools", "call", "todo", "--json-args", "[1]"]).await, 2),
        (plexus.run(&["status", "--hub", "ftp://nonsense"]).await, 2),
        (plexus.run(&["status", "--hub", "http://127.0.0.1:1"]).await, 4),
        (plexus.run_with(&["status"], &[("PLEXUS_TOKEN", "nonsense")]).await, 5),
        // A scope that the token lacks, and a new token with more rights than its creator.
        (plexus.run_with(&["audit", "verify"], &as_agent).await, 5),
        (plexus.run_with(&["token", "create", "--kind", "admin", "--name", "x"], &as_agent).await, 5),
    ];
    for (output, code) in codes {
        assert_eq!(output.code, Some(code), "{output:?}");
        if code != 0 {
            assert_eq!(output.stdout, "", "{output:?}");
            assert_eq!(output.stderr.matches("error: ").count(), 1, "{output:?}");
            assert!(!output.stderr.contains(&agent), "a token in {output:?}");
        }
    }
}

#[tokio::test]
async fn empty_event_list_prints_a_note() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let output = plexus.run(&["events"]).await;
    assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (Some(0), "", "No events.\n"));
    assert_eq!(plexus.run(&["events", "--json"]).await.ok(), "");
}

#[tokio::test]
async fn profiles_are_listed_and_shown() {
    let plexus = crate::plexus();
    // Profiles written before the first start of the hub.
    let own = plexus.data_dir().join("profiles/own");
    std::fs::create_dir_all(&own).expect("a folder");
    std::fs::write(own.join("config.json"), r#"{"enabled_tools": ["todo"]}"#).expect("a file");
    let with_warning = plexus.data_dir().join("profiles/vain");
    std::fs::create_dir_all(&with_warning).expect("a folder");
    std::fs::write(with_warning.join("config.json"), r#"{"mcp_servers": {"zebra": ["*"]}}"#).expect("a file");
    let _hub = plexus.up().await;
    let list = plexus.run(&["profile", "list", "--json"]).await.json(0);
    let ids: Vec<_> = items(&list).iter().map(|profile| profile["id"].as_str().expect("an id")).collect();
    assert_eq!(
        ids,
        ["developer", "discuss", "modeler_3d", "own", "secretary", "server_admin", "tool_developer", "vain"]
    );
    let lines = plexus.run(&["profile", "list"]).await;
    assert!(lines.ok().lines().any(|line| line.starts_with("discuss\tok\t2\t2\tshipped\t")), "{lines:?}");
    assert!(lines.ok().lines().any(|line| line.starts_with("own\tok\t1\t1\tfile")), "{lines:?}");
    assert!(lines.ok().lines().any(|line| line.starts_with("vain\twarnings\t")), "{lines:?}");
    assert!(lines.ok().lines().any(|line| line.starts_with("modeler_3d\tok\t")), "{lines:?}");
    let modeler = plexus.run(&["profile", "show", "modeler_3d"]).await;
    assert!(
        modeler.ok().contains("\nInformation\n  mcp_servers: there are no tools of blender at present\n")
            && !modeler.ok().contains("Warnings"),
        "{modeler:?}"
    );
    let shown = plexus.run(&["profile", "show", "discuss"]).await;
    for words in
        ["source\tbuilt-in", "\nTools\n  scratchpad\n  session_info\n", "System prompt of sub-agents"]
    {
        assert!(shown.ok().contains(words), "{words:?} not in {shown:?}");
    }
    assert!(plexus.run(&["profile", "show", "zebra"]).await.failed(1).contains("no such profile"));
    let refused =
        plexus.run(&["token", "create", "--kind", "agent", "--name", "x", "--profile", "zebra"]).await;
    assert!(
        refused.failed(1).contains("there is no profile zebra; available profiles: developer, discuss"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn tool_cost_is_shown_by_server_tool_and_profile() {
    let (plexus, _hub) = running().await;
    let cost = plexus.run(&["tools", "cost", "--json"]).await.json(0);
    let (dearest, total) = (&cost["tools"][0], cost["tokens"].as_u64().expect("tokens"));
    let shown = plexus.run(&["tools", "cost", "--limit", "1"]).await;
    let lines: Vec<&str> = shown.ok().lines().collect();
    assert!(
        lines[0].starts_with("(hub)\t") && lines[0].ends_with(&format!("\t{total}\t100.0 %")),
        "{shown:?}"
    );
    let row = format!("{}\t(hub)\t{}\t", dearest["name"].as_str().expect("a name"), dearest["tokens"]);
    assert!(lines[2].starts_with(&row), "{row}: {shown:?}");
    assert!(shown.ok().contains(&format!("\n{total} tokens for ")), "{shown:?}");
    assert!(shown.stderr.contains("more: raise --limit"), "{shown:?}");
    let discuss = plexus.run(&["tools", "cost", "--profile", "discuss"]).await;
    assert!(
        discuss.ok().contains("tokens for 2 tools in the profile discuss, counted with o200k_base."),
        "{discuss:?}"
    );
    let unknown = plexus.run(&["tools", "cost", "--profile", "discus"]).await;
    assert!(unknown.failed(1).contains("there is no profile discus"), "{unknown:?}");
}
