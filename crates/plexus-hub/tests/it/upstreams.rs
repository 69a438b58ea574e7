//! Upstream MCP servers over REST: adding, showing, enabling, disabling, removing, testing and importing.

mod approve;
mod gate;

use std::path::Path;
use std::time::Duration;

use plexus_testkit::TestHub;
use plexus_testkit::fixture::{Fixture, program};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Client, send};

/// Time limit for a state change of a server: far beyond what it should take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Interval between two looks at a state that only the API shows.
const POLL: Duration = Duration::from_millis(20);

/// A hub that may run the fixture server.
async fn hub_for_fixtures() -> TestHub {
    TestHub::start_with(|config| config.upstreams.commands = vec![program().display().to_string()]).await
}

/// The server, once it is in this state.
async fn in_state(admin: &Client<'_>, name: &str, state: &str) -> Value {
    let mut last = Value::Null;
    let reached = tokio::time::timeout(TIMEOUT, async {
        loop {
            last = admin.get(&format!("/upstreams/{name}")).await.ok();
            if last["state"] == state {
                break;
            }
            tokio::time::sleep(POLL).await;
        }
    });
    assert!(reached.await.is_ok(), "{name} did not become {state}: {last}");
    last
}

/// The audited outcome of the newest operation with this name.
async fn outcome(hub: &TestHub, operation: &str) -> String {
    hub.outcome_of(operation).await
}

async fn tool_names(client: &Client<'_>) -> Vec<String> {
    let page = client.get("/tools?limit=200").await.ok();
    let names =
        page["items"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[tokio::test]
async fn server_can_be_added_used_disabled_and_removed() {
    let (hub, fixture) = (TestHub::start().await, Fixture::new().start().await);
    let admin = Client::admin(&hub);
    let empty = admin.get("/upstreams").await;
    let empty_tag = empty.header("etag").to_owned();
    assert_eq!(empty.ok(), json!({ "items": [], "next": null }));

    let server = json!({ "url": fixture.url() });
    let added = admin.post("/upstreams", &json!({ "name": "fixture", "server": server })).await;
    assert_eq!((added.status.as_u16(), added.header("location")), (201, "/api/v1/upstreams/fixture"));
    let shown = in_state(&admin, "fixture", "ready").await;
    assert_eq!(shown["document"], server, "{shown}");
    assert_eq!((&shown["transport"], &shown["slug"]), (&json!("streamable_http"), &json!("fixture")));
    let tools = shown["tools"].as_array().unwrap();
    assert!(tools.contains(&json!("mcp__fixture__echo")), "{shown}");
    assert_eq!(admin.get("/status").await.ok()["upstreams"]["ready"], 1);

    // Listed, with an entity tag that changes with the list.
    let list = admin.get("/upstreams").await;
    assert_ne!(list.header("etag"), empty_tag);
    let again =
        send(admin.request(Method::GET, "/upstreams").header("if-none-match", list.header("etag"))).await;
    assert_eq!(again.status, 304);
    assert_eq!(list.ok()["items"][0]["name"], "fixture");

    // Called over REST and over MCP.
    let call = json!({ "arguments": { "text": "hello" } });
    let called = admin.post("/tools/mcp__fixture__echo/call", &call).await.ok();
    assert_eq!((&called["success"], &called["text"]), (&json!(true), &json!("hello")), "{called}");
    let agent = hub.token("agent", &["call:mcp__fixture__*"]).await.token;
    let result = hub.mcp(&agent).tool("mcp__fixture__echo", json!({ "text": "again" })).await;
    assert_eq!(result["content"][0]["text"], "again", "{result}");

    // The same name, and one with the same tool names.
    for name in ["fixture", "fixture-"] {
        let twice = admin.post("/upstreams", &json!({ "name": name, "server": server })).await;
        assert_eq!(twice.refused(409), "conflict", "{name}");
    }
    assert_eq!(outcome(&hub, "upstream_add").await, "conflict");

    let off = admin.post("/upstreams/fixture/disable", &json!({})).await.ok();
    assert_eq!((&off["state"], &off["tools"]), (&json!("disabled"), &json!([])), "{off}");
    assert!(!tool_names(&admin).await.contains(&"mcp__fixture__echo".to_owned()));
    assert_eq!(admin.post("/tools/mcp__fixture__echo/call", &call).await.refused(404), "unknown_tool");
    admin.post("/upstreams/fixture/enable", &json!({})).await.ok();
    in_state(&admin, "fixture", "ready").await;
    admin.post("/upstreams/fixture/restart", &json!({})).await.ok();
    in_state(&admin, "fixture", "ready").await;
    assert_eq!(admin.get("/upstreams/fixture/logs").await.ok(), json!({ "lines": [] }));

    let removed = send(admin.request(Method::DELETE, "/upstreams/fixture")).await.ok();
    let backup = Path::new(removed["backup"].as_str().unwrap());
    assert!(backup.is_file() && !backup.ends_with("fixture.json"), "{removed}");
    assert_eq!(admin.get("/upstreams/fixture").await.refused(404), "not_found");
    assert!(!tool_names(&admin).await.contains(&"mcp__fixture__echo".to_owned()));
    for operation in ["disable", "enable", "restart", "remove"] {
        assert_eq!(outcome(&hub, &format!("upstream_{operation}")).await, "ok", "{operation}");
    }
}

#[tokio::test]
async fn process_is_started_shown_with_its_log_and_stopped() {
    let hub = hub_for_fixtures().await;
    let admin = Client::admin(&hub);
    let server = json!({ "command": program(), "args": ["--stdio"] });
    admin.post("/upstreams", &json!({ "name": "local", "server": server })).await.ok();
    let shown = in_state(&admin, "local", "ready").await;
    let record = &admin.get("/audit?tool=upstream_add&limit=1").await.ok()["items"][0];
    assert_eq!((&record["outcome"], &record["actor"]), (&json!("ok"), &json!("admin:local")), "{record}");
    assert_eq!(record["result"]["command"], json!(program()), "{record}");
    let pid = shown["pid"].as_u64().unwrap_or_else(|| panic!("no process: {shown}"));
    let flood = json!({ "arguments": { "bytes": 4096 } });
    admin.post("/tools/mcp__local__flood_stderr/call", &flood).await.ok();
    let lines = tokio::time::timeout(TIMEOUT, async {
        loop {
            let logs = admin.get("/upstreams/local/logs?limit=2").await.ok();
            if logs["lines"].as_array().is_some_and(|lines| lines.len() == 2) {
                return logs;
            }
            tokio::time::sleep(POLL).await;
        }
    });
    let lines = lines.await.expect("its standard error in time");
    assert!(lines["lines"][1].as_str().unwrap().contains("a line of the fixture server"), "{lines}");
    for limit in ["0", "1001", "-1", "x"] {
        let answer = admin.get(&format!("/upstreams/local/logs?limit={limit}")).await;
        assert_eq!(answer.refused(400), "invalid_request", "{limit}");
    }
    send(admin.request(Method::DELETE, "/upstreams/local")).await.ok();
    let process_ended = tokio::time::timeout(TIMEOUT, async {
        while Path::new(&format!("/proc/{pid}")).exists() {
            tokio::time::sleep(POLL).await;
        }
    });
    assert!(process_ended.await.is_ok(), "process {pid} outlived its server");
}

#[tokio::test]
async fn testing_a_server_stores_nothing() {
    let hub = hub_for_fixtures().await;
    let (admin, fixture) = (Client::admin(&hub), Fixture::new().start().await);
    for server in [json!({ "url": fixture.url() }), json!({ "command": program(), "args": ["--stdio"] })] {
        let found = admin.post("/upstreams/trial/test", &json!({ "server": server })).await.ok();
        assert_eq!((&found["success"], &found["error"]), (&json!(true), &Value::Null), "{found}");
        assert!(found["tools"].as_array().unwrap().contains(&json!("mcp__trial__echo")), "{found}");
        assert!(found["revision"].is_string() && found["server"].is_string(), "{found}");
    }
    let wrong = json!({ "server": { "command": program(), "args": ["--no-such-flag"] } });
    let found = admin.post("/upstreams/trial/test", &wrong).await.ok();
    assert_eq!(found["success"], false, "{found}");
    assert!(found["error"].as_str().is_some_and(|error| !error.is_empty()), "{found}");
    let stderr = found["stderr"].to_string();
    assert!(stderr.contains("--no-such-flag"), "{found}");
    assert_eq!(admin.get("/upstreams").await.ok()["items"], json!([]));
    // Without a server in the body, the existing one is tested.
    assert_eq!(admin.post("/upstreams/trial/test", &json!({})).await.refused(404), "not_found");
    admin.post("/upstreams", &json!({ "name": "trial", "server": { "url": fixture.url() } })).await.ok();
    assert_eq!(admin.post("/upstreams/trial/test", &json!({})).await.ok()["success"], true);
    assert_eq!(outcome(&hub, "upstream_test").await, "ok");
}

/// Commands and connections are recorded for later review, without credentials.
#[tokio::test]
async fn tested_and_added_servers_are_audited() {
    let hub = hub_for_fixtures().await;
    let (admin, fixture) = (Client::admin(&hub), Fixture::new().start().await);
    let origin = fixture.url().split('/').take(3).collect::<Vec<_>>().join("/");
    let process = json!({ "command": program(), "args": ["--no-such-flag", "--api-key", "s3cr3t"] });
    let masked = json!(["--no-such-flag", "--api-key", "[redacted]"]);
    let newest = async |operation: &str| {
        let page = admin.get(&format!("/audit?tool={operation}&limit=1")).await.ok();
        assert!(!page.to_string().contains("s3cr3t"), "{page}");
        page["items"][0].clone()
    };
    admin.post("/upstreams/trial/test", &json!({ "server": process })).await.ok();
    let record = newest("upstream_test").await;
    assert_eq!(record["result"]["command"], json!(program()), "{record}");
    assert_eq!((&record["result"]["args"], &record["result"]["transport"]), (&masked, &json!("stdio")));
    // A refused request is recorded too.
    let unlisted = json!({ "server": { "command": "/bin/sh", "args": ["-c", "true"] } });
    assert_eq!(admin.post("/upstreams/trial/test", &unlisted).await.refused(403), "forbidden");
    let record = newest("upstream_test").await.to_string();
    assert!(record.contains("/bin/sh") && record.contains(r#"["-c","true"]"#), "{record}");

    let web = json!({ "url": fixture.url(), "headers": { "X-Api-Key": "s3cr3t" }, "approve": "auto" });
    admin.post("/upstreams", &json!({ "name": "web", "server": web })).await.ok();
    assert_eq!(newest("upstream_add").await["result"]["approve"], "auto");
    let stored = |record: &Value| (record["result"]["origin"].clone(), record["result"]["transport"].clone());
    let expected = (json!(origin), json!("streamable_http"));
    assert_eq!(stored(&newest("upstream_add").await), expected);
    admin.post("/upstreams/web/test", &json!({})).await.ok();
    assert_eq!(stored(&newest("upstream_test").await), expected);
}

/// Non-admins see only what their tools reveal anyway.
#[tokio::test]
async fn servers_are_visible_with_their_tools() {
    let hub = hub_for_fixtures().await;
    let admin = Client::admin(&hub);
    let server = json!({ "command": program(), "args": ["--stdio"], "env": { "A_KEY": "s3cr3t" } });
    for name in ["mine", "other"] {
        admin.post("/upstreams", &json!({ "name": name, "server": server })).await.ok();
        in_state(&admin, name, "ready").await;
    }
    let user = Client::agent(&hub, "user", &["read:upstreams", "call:mcp__mine__echo"]).await;
    let list = user.get("/upstreams").await.ok();
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    let visible = user.get("/upstreams/mine").await.ok();
    assert_eq!(
        (&visible["name"], &visible["tools"]),
        (&json!("mine"), &json!(["mcp__mine__echo"])),
        "{visible}"
    );
    assert_eq!((&visible["document"], &visible["warnings"]), (&Value::Null, &json!([])), "{visible}");
    assert_eq!(list["items"][0]["tools"], visible["tools"]);
    // A hidden server cannot be told apart from a missing one.
    let [other, nowhere] = [user.get("/upstreams/other").await, user.get("/upstreams/nowhere").await];
    assert_eq!((other.refused(404), nowhere.refused(404)), ("not_found", "not_found"));
    assert_eq!(user.get("/upstreams/mine/logs").await.refused(403), "forbidden");
    // A failure is shown without the process's standard error.
    let flood = json!({ "arguments": { "bytes": 4096 } });
    admin.post("/tools/mcp__mine__flood_stderr/call", &flood).await.ok();
    admin.post("/tools/mcp__mine__crash/call", &json!({ "arguments": {} })).await;
    let failed = tokio::time::timeout(TIMEOUT, async {
        loop {
            let shown = admin.get("/upstreams/mine").await.ok();
            if shown["last_error"]["stderr"].as_array().is_some_and(|lines| !lines.is_empty()) {
                return in_state(&admin, "mine", "ready").await;
            }
            tokio::time::sleep(POLL).await;
        }
    });
    let failed = failed.await.expect("what it wrote, for an admin, in time");
    let visible = user.get("/upstreams/mine").await.ok();
    let (whole, document) =
        (&failed["last_error"]["message"], visible["last_error"]["message"].as_str().unwrap());
    let whole = whole.as_str().unwrap();
    assert!(whole.contains("; the last line of its standard error: "), "{failed}");
    assert!(
        whole.starts_with(document) && !document.is_empty() && !document.contains("standard error"),
        "{visible}"
    );
    assert_eq!(visible["last_error"]["stderr"], json!([]), "{visible}");
}

#[tokio::test]
async fn invalid_server_is_refused_with_all_problems() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    for (server, words) in [
        (json!({}), "url"),
        (json!({ "command": "npx", "url": "https://mcp.example.net" }), "url"),
        (json!({ "url": "https://mcp.example.net", "transport": "pigeon" }), "transport"),
        (json!({ "url": "https://mcp.example.net", "colour": "red" }), "colour"),
    ] {
        let answer = admin.post("/upstreams", &json!({ "name": "wrong", "server": server })).await;
        assert_eq!(answer.refused(400), "invalid_request", "{server}");
        assert!(answer.body["message"].as_str().unwrap().contains(words), "{words}: {answer:?}");
    }
    let fine = json!({ "url": "https://mcp.example.net" });
    for name in ["", ".", "..", "../x", "a/b", "-", ".hidden", "a b", "é", &"x".repeat(65)] {
        let answer = admin.post("/upstreams", &json!({ "name": name, "server": fine })).await;
        assert_eq!(answer.refused(400), "invalid_request", "{name}");
    }
    assert_eq!(admin.get("/upstreams").await.ok()["items"], json!([]));
    assert_eq!(admin.get("/upstreams/..%2Fplexus").await.refused(404), "not_found");
}

#[tokio::test]
async fn credentials_of_a_server_are_masked() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    // Has the format of a credential, but is not a real one.
    let secret = ["ghp", &"0".repeat(36)].join("_");
    let server = json!({
        "url": "https://mcp.example.net/mcp", "enabled": false,
        "headers": { "Authorization": format!("Bearer {secret}") },
    });
    let added = admin.post("/upstreams", &json!({ "name": "secretive", "server": server })).await.ok();
    let warned = added["warnings"].to_string();
    assert!(warned.contains("${env:"), "{added}");
    for path in ["/upstreams/secretive", "/upstreams", "/audit?limit=10"] {
        let document = admin.get(path).await.ok().to_string();
        assert!(!document.contains(&secret), "{path}: {document}");
    }
    let shown = admin.get("/upstreams/secretive").await.ok();
    assert!(shown["document"]["headers"]["Authorization"].is_string(), "{shown}");
}

#[tokio::test]
async fn files_of_other_programs_can_be_imported() {
    let hub = hub_for_fixtures().await;
    let (admin, fixture) = (Client::admin(&hub), Fixture::new().start().await);
    let content = json!({ "mcpServers": {
        "web": { "type": "http", "url": fixture.url() },
        "local": { "command": program(), "args": ["--stdio"] },
        "shell": { "command": "/bin/sh", "args": ["-c", "exit 1"] },
    } })
    .to_string();
    let body = |dry_run: bool| json!({ "file_name": ".mcp.json", "content": content, "dry_run": dry_run });
    let names = |list: &Value| -> Vec<String> {
        let names = list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned());
        names.collect()
    };
    let plan = admin.post("/upstreams/-/import", &body(true)).await.ok();
    assert_eq!(
        (names(&plan["added"]), names(&plan["skipped"])),
        (vec!["local".into(), "web".into()], vec!["shell".into()])
    );
    assert!(plan["skipped"][0]["reason"].as_str().unwrap().contains("upstreams.commands"), "{plan}");
    assert_eq!(admin.get("/upstreams").await.ok()["items"], json!([]));
    let done = admin.post("/upstreams/-/import", &body(false)).await.ok();
    assert_eq!((&done["added"], &done["dry_run"]), (&plan["added"], &json!(false)));
    in_state(&admin, "web", "ready").await;
    in_state(&admin, "local", "ready").await;
    // On the second import the servers already exist.
    let again = admin.post("/upstreams/-/import", &body(false)).await.ok();
    assert_eq!((&again["added"], names(&again["skipped"]).len()), (&json!([]), 3), "{again}");
    let nonsense = json!({ "file_name": "x.json", "content": "nonsense", "dry_run": true });
    assert_eq!(admin.post("/upstreams/-/import", &nonsense).await.refused(400), "invalid_request");
}

#[tokio::test]
async fn manually_written_files_are_reloaded() {
    let (hub, fixture) = (TestHub::start().await, Fixture::new().start().await);
    let admin = Client::admin(&hub);
    let folder = hub.data_dir().join("mcp_servers.d");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("by-hand.json"), json!({ "url": fixture.url() }).to_string()).unwrap();
    std::fs::write(folder.join("wrong.json"), "{}").unwrap();
    admin.post("/upstreams/-/reload", &json!({})).await.ok();
    in_state(&admin, "by-hand", "ready").await;
    let wrong = in_state(&admin, "wrong", "invalid").await;
    assert!(wrong["last_error"]["message"].as_str().unwrap().contains("wrong.json"), "{wrong}");
    // An invalid server can neither be enabled nor tested, but can be removed.
    for operation in ["enable", "test"] {
        let answer = admin.post(&format!("/upstreams/wrong/{operation}"), &json!({})).await;
        assert_eq!(answer.refused(409), "conflict", "{operation}");
    }
    send(admin.request(Method::DELETE, "/upstreams/wrong")).await.ok();
    assert_eq!(admin.get("/upstreams/wrong").await.refused(404), "not_found");
}
