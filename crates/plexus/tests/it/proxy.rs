//! `plexus mcp` as agents start it: a process between them and a hub that is killed and comes back.

use std::time::Duration;

use plexus_testkit::{HubProcess, McpClient, Plexus, Signal, send};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

async fn in_time<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what} did not happen in time"))
}

fn add(text: &str) -> Value {
    json!({ "name": "todo", "arguments": { "action": "add", "text": text } })
}

fn list() -> Value {
    json!({ "name": "todo", "arguments": { "action": "list" } })
}

fn texts(result: &Value) -> Vec<String> {
    let items = result["structuredContent"]["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["text"].as_str().unwrap().to_owned()).collect()
}

/// An agent that has started its own proxy.
struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    next_id: u64,
}

impl Agent {
    async fn start(plexus: &Plexus, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut agent = Self::start_only(plexus, args, variables);
        let client = json!({ "name": "agent", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let greeting = agent.request("initialize", params).await;
        assert_eq!(greeting["result"]["serverInfo"]["name"], "plexus", "{greeting}");
        agent.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        agent
    }

    fn start_only(plexus: &Plexus, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = plexus.command(env!("CARGO_BIN_EXE_plexus"), &[&["mcp"], args].concat());
        command.envs(variables.iter().copied()).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output, next_id: 0 }
    }

    async fn say(&mut self, message: &Value) {
        self.input.as_mut().unwrap().write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        in_time("an answer", async {
            loop {
                let line = self.output.next_line().await.unwrap().expect("an answer before the end");
                let message: Value = serde_json::from_str(&line).unwrap();
                if message["id"] == id {
                    return message;
                }
            }
        })
        .await
    }

    async fn call(&mut self, params: Value) -> Value {
        self.request("tools/call", params).await["result"].clone()
    }

    /// The to-do list, once it has so many items.
    async fn todos(&mut self, count: usize) -> Vec<String> {
        in_time("the to-do list", async {
            loop {
                let found = texts(&self.call(list()).await);
                if found.len() >= count {
                    return found;
                }
                tokio::time::sleep(POLL).await;
            }
        })
        .await
    }

    /// Closes the input; the proxy ends well, and what it logged.
    async fn leave(mut self) -> String {
        self.input = None;
        self.ended().await
    }

    async fn ended(mut self) -> String {
        let status = in_time("the end of the proxy", self.child.wait()).await.unwrap();
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).await.unwrap();
        assert!(status.success(), "{status}: {log}");
        log
    }
}

/// A hub on an address that it can have again.
async fn up(plexus: &Plexus, address: Option<&str>) -> HubProcess {
    plexus.up_with(&["--listen", address.unwrap_or("127.0.0.1:0")]).await
}

#[tokio::test]
async fn an_agent_does_not_notice_that_its_hub_was_killed() {
    let plexus = crate::plexus();
    let hub = up(&plexus, None).await;
    let (address, url) = (hub.address().to_string(), hub.url(""));
    let token = hub.token("codex").await.token;
    let variables = [("PLEXUS_HUB", url.as_str()), ("PLEXUS_TOKEN", token.as_str())];
    let mut agent = Agent::start(&plexus, &["--agent", "codex"], &variables).await;
    let tools = agent.request("tools/list", json!({})).await["result"]["tools"].clone();
    assert_eq!(texts(&agent.call(add("a")).await), ["a"]);
    // No token where other processes of the machine could read it.
    let seen = std::fs::read(format!("/proc/{}/cmdline", agent.child.id().unwrap())).unwrap();
    assert!(!String::from_utf8_lossy(&seen).contains(&token));

    hub.kill().await;
    assert_eq!(agent.request("tools/list", json!({})).await["result"]["tools"], tools);
    for text in ["b", "c"] {
        let kept = agent.call(add(text)).await;
        assert_eq!(kept["structuredContent"]["queued"], true, "{kept}");
    }
    let read = agent.request("tools/call", list()).await;
    assert_eq!(
        (&read["error"]["code"], &read["error"]["data"]["retryable"]),
        (&json!(-32002), &json!(true)),
        "{read}"
    );
    // Another one of the same agent shares what is kept, and has the same list.
    let mut other = Agent::start(&plexus, &["--agent", "codex"], &variables).await;
    assert_eq!(other.request("tools/list", json!({})).await["result"]["tools"], tools);
    other.leave().await;

    let hub = up(&plexus, Some(&address)).await;
    assert_eq!(agent.todos(3).await, ["a", "b", "c"], "in the session that it began with");
    let live = in_time("a live write", async {
        loop {
            let written = agent.call(add("d")).await;
            if written["structuredContent"]["queued"] != true {
                return texts(&written);
            }
        }
    })
    .await;
    assert_eq!(live[..4], ["a", "b", "c", "d"]);
    let log = agent.leave().await;
    assert!(!log.contains(&token), "{log}");
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn the_hub_learns_the_folder_and_the_plan_of_an_agent() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let mut agent = Agent::start(&plexus, &[], &[]).await;
    agent.call(add("rewrite the importer")).await;
    let list = plexus.run(&["sessions", "list", "--json"]).await.json(0);
    let session = &list["items"][0];
    // Commands of a test run in its home.
    assert_eq!(session["folder"], plexus.home().display().to_string(), "{session}");
    assert_eq!(session["title"], "rewrite the importer", "{session}");
    agent.leave().await;
}

#[tokio::test]
async fn the_proxy_begins_before_its_hub_and_finds_its_token_then() {
    let plexus = crate::plexus();
    let first = up(&plexus, None).await;
    let (address, url) = (first.address().to_string(), first.url(""));
    assert!(first.terminate().await.success());
    std::fs::remove_dir_all(plexus.data_dir()).unwrap();
    let mut agent = Agent::start(&plexus, &["--agent", "claude"], &[("PLEXUS_HUB", &url)]).await;
    assert_eq!(agent.request("tools/list", json!({})).await["result"]["tools"], json!([]));
    let hub = up(&plexus, Some(&address)).await;
    in_time("the tools", async {
        while agent.request("tools/list", json!({})).await["result"]["tools"]
            .as_array()
            .is_none_or(Vec::is_empty)
        {
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
    assert_eq!(texts(&agent.call(add("a")).await), ["a"]);
    let calls = hub.api("/api/v1/audit?tool=todo").await;
    assert_eq!(calls["items"][0]["actor"], "agent:claude", "{calls}");
    agent.leave().await;
}

#[tokio::test]
async fn the_proxy_ends_with_its_input_and_when_it_is_told_to() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let (url, token) = (hub.url(""), hub.token("agent").await.token);
    let variables = [("PLEXUS_HUB", url.as_str()), ("PLEXUS_TOKEN", token.as_str())];
    let mut listens = Agent::start_only(&plexus, &[], &variables);
    let meta = plexus_testkit::modern_meta();
    let params = json!({ "notifications": { "toolsListChanged": true }, "_meta": meta });
    listens
        .say(&json!({ "jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params }))
        .await;
    let first = in_time("a word", listens.output.next_line()).await.unwrap().unwrap();
    assert!(first.contains("acknowledged"), "{first}");
    listens.leave().await;
    for signal in [Signal::TERM, Signal::INT] {
        let agent = Agent::start(&plexus, &[], &variables).await;
        send(&agent.child, signal);
        agent.ended().await;
    }
}

/// A proxy on a port of this machine; a client of it, and what it printed.
async fn over_http(plexus: &Plexus, variables: &[(&str, &str)]) -> (Child, McpClient, Value) {
    let mut command =
        plexus.command(env!("CARGO_BIN_EXE_plexus"), &["mcp", "--http", "127.0.0.1:0", "--json"]);
    let mut child = command.envs(variables.iter().copied()).spawn().expect("the program starts");
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = in_time("where it is", output.next_line()).await.unwrap().expect("a line");
    let said: Value = serde_json::from_str(&line).unwrap();
    let given = variables.iter().find(|(name, _)| *name == "PLEXUS_PROXY_SECRET").map(|(_, secret)| *secret);
    let secret = said["secret"].as_str().or(given).expect("a secret").to_owned();
    let client = McpClient::new(plexus.http().clone(), said["url"].as_str().unwrap().to_owned(), &secret);
    (child, client, said)
}

#[tokio::test]
async fn over_http_it_says_where_it_is_and_what_opens_it() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let (url, token) = (hub.url(""), hub.token("agent").await.token);
    let variables = [("PLEXUS_HUB", url.as_str()), ("PLEXUS_TOKEN", token.as_str())];
    let (_one, first, said) = over_http(&plexus, &variables).await;
    assert_eq!(said["hub"], url);
    assert_eq!(said["secret"].as_str().unwrap().len(), 64, "made for this one");
    assert_eq!(texts(&first.tool("todo", add("a")["arguments"].clone()).await), ["a"]);
    assert_eq!(first.header("authorization", &format!("Bearer {token}")).get().await.error(), (401, -32001));
    let (_two, _, other) = over_http(&plexus, &variables).await;
    assert_ne!(other["secret"], said["secret"]);
    let given = [&variables[..], &[("PLEXUS_PROXY_SECRET", "a secret of sixteen or more")]].concat();
    let (_three, third, quiet) = over_http(&plexus, &given).await;
    assert_eq!(quiet["secret"], Value::Null, "what was given is not said again");
    assert_eq!(third.call("ping", json!({})).await.status, 200);

    for (args, variables, words) in [
        (&["mcp", "--http", "0.0.0.0:0"][..], &variables[..], "other machines"),
        (
            &["mcp", "--http", "127.0.0.1:0"],
            &[("PLEXUS_HUB", &*url), ("PLEXUS_PROXY_SECRET", "short")],
            "too short",
        ),
    ] {
        let refused = plexus.run_with(args, variables).await;
        assert!(refused.failed(2).contains(words), "{refused:?}");
    }
    // Where nothing can be kept, that is said, and what to do.
    let taken = plexus.home().join("taken");
    std::fs::write(&taken, "a file").unwrap();
    let folder = taken.join("data").display().to_string();
    let unusable = [&variables[..], &[("PLEXUS_DATA_DIR", folder.as_str())]].concat();
    let refused = plexus.run_with(&["mcp", "--http", "127.0.0.1:0"], &unusable).await;
    let words = refused.failed(1);
    assert!(words.contains("PLEXUS_DATA_DIR") && words.contains("PLEXUS_PROXY=off"), "{words}");
}

#[tokio::test]
async fn off_it_keeps_nothing() {
    let plexus = crate::plexus();
    let hub = up(&plexus, None).await;
    let (url, token) = (hub.url(""), hub.token("agent").await.token);
    for off in ["0", "false", "off", "OFF"] {
        let variables = [("PLEXUS_HUB", &*url), ("PLEXUS_TOKEN", &*token), ("PLEXUS_PROXY", off)];
        let mut agent = Agent::start(&plexus, &[], &variables).await;
        let written = agent.call(add("a")).await;
        assert_eq!(written["isError"], false, "{written}");
        agent.leave().await;
    }
    assert!(!plexus.data_dir().join("proxy").exists());
    let variables = [("PLEXUS_HUB", &*url), ("PLEXUS_TOKEN", &*token), ("PLEXUS_PROXY", "off")];
    let mut agent = Agent::start(&plexus, &[], &variables).await;
    hub.kill().await;
    let lost = agent.request("tools/call", add("b")).await;
    assert_eq!(lost["error"]["code"], -32002, "{lost}");
    assert!(!plexus.data_dir().join("proxy").exists());
}

#[tokio::test]
async fn clients_of_others_use_it_with_a_hub_and_without_one() {
    let plexus = crate::plexus();
    let hub = up(&plexus, None).await;
    let (address, url) = (hub.address().to_string(), hub.url(""));
    let token = hub.token("agent").await.token;
    let variables = [("PLEXUS_HUB", url.as_str()), ("PLEXUS_TOKEN", token.as_str())];
    let (_proxy, client, said) = over_http(&plexus, &variables).await;
    client.modern("tools/list", json!({})).await.result();
    // One that they start themselves finds this machine's hub in the data folder.
    let started = |calls: &Value| {
        let data = format!("PLEXUS_DATA_DIR={}", plexus.data_dir().display());
        let args = [
            data.as_str(),
            &format!("PLEXUS_HUB={url}"),
            env!("CARGO_BIN_EXE_plexus"),
            "mcp",
            "--agent",
            "sdk",
        ];
        json!([{ "command": "/usr/bin/env", "args": args, "calls": calls }])
    };
    let reached = |calls: &Value| json!([{ "url": said["url"], "calls": calls }]);
    let clients = crate::others::clients().await;
    let each = async |calls: Value, check: &dyn Fn(&str, &Value)| {
        for (name, sdk, script) in &clients {
            let mut servers = vec![reached(&calls)];
            if script.extension().is_some_and(|kind| kind == "mjs") {
                servers.push(started(&calls));
            }
            for server in servers {
                let secret = said["secret"].as_str().unwrap();
                let mut running = sdk.script(script, &[&server.to_string()], secret);
                let report = running.line().await;
                running.end().await;
                assert!(report["tools"].as_array().unwrap().contains(&json!("todo")), "{name}: {report}");
                check(name, &report["results"]);
            }
        }
    };
    each(
        json!([["todo", { "action": "clear" }], ["todo", { "action": "add", "text": "a" }]]),
        &|name, results| {
            assert_eq!(results[1]["structuredContent"]["items"][0]["text"], "a", "{name}: {results}");
        },
    )
    .await;
    hub.kill().await;
    // The SDKs compare it with the schema that the tool was listed with.
    each(json!([["todo", { "action": "add", "text": "b" }]]), &|name, results| {
        assert_eq!(results[0]["structuredContent"]["queued"], true, "{name}: {results}");
    })
    .await;
    let _hub = up(&plexus, Some(&address)).await;
}
