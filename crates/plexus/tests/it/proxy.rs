//! `plexus mcp` as agents start it, with a hub that is killed and restarted.

use std::time::Duration;

use plexus_testkit::{HubProcess, McpClient, Plexus, Signal, eventually, send, until};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

const TIMEOUT: Duration = Duration::from_secs(20);

async fn in_time<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, wait).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

pub(crate) fn add(text: &str) -> Value {
    json!({ "name": "todo", "arguments": { "action": "add", "text": text } })
}

fn list() -> Value {
    json!({ "name": "todo", "arguments": { "action": "list" } })
}

fn todo_texts(result: &Value) -> Vec<String> {
    let items = result["structuredContent"]["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["text"].as_str().unwrap().to_owned()).collect()
}

/// An agent with its own proxy.
pub(crate) struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    next_id: u64,
}

impl Agent {
    pub(crate) async fn start(plexus: &Plexus, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut agent = Self::spawn(plexus, args, variables);
        let client = json!({ "name": "agent", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let greeting = agent.request("initialize", params).await;
        assert_eq!(greeting["result"]["serverInfo"]["name"], "plexus", "{greeting}");
        agent.send_message(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        agent
    }

    fn spawn(plexus: &Plexus, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = plexus.command(env!("CARGO_BIN_EXE_plexus"), &[&["mcp"], args].concat());
        command.envs(variables.iter().copied()).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output, next_id: 0 }
    }

    async fn send_message(&mut self, message: &Value) {
        self.input.as_mut().unwrap().write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.send_message(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
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

    pub(crate) async fn call(&mut self, params: Value) -> Value {
        self.request("tools/call", params).await["result"].clone()
    }

    /// The to-do list, once it has at least this many items.
    async fn todos_once(&mut self, count: usize) -> Vec<String> {
        eventually(&format!("{count} to-do items"), async || {
            let found = todo_texts(&self.call(list()).await);
            if found.len() >= count { Ok(found) } else { Err(format!("{found:?}")) }
        })
        .await
    }

    /// Closes the input and waits for a successful exit; returns the log.
    pub(crate) async fn close_input(mut self) -> String {
        self.input = None;
        self.wait_for_exit().await
    }

    async fn wait_for_exit(mut self) -> String {
        let status = in_time("the end of the proxy", self.child.wait()).await.unwrap();
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).await.unwrap();
        assert!(status.success(), "{status}: {log}");
        log
    }
}

/// A hub on this address, or on any.
async fn up(plexus: &Plexus, address: Option<&str>) -> HubProcess {
    plexus.up_with(&["--listen", address.unwrap_or("127.0.0.1:0")]).await
}

#[tokio::test]
async fn agent_keeps_working_while_its_hub_is_down() {
    let plexus = crate::plexus();
    let hub = up(&plexus, None).await;
    let (address, url) = (hub.address().to_string(), hub.url(""));
    let token = hub.token("codex").await.token;
    let variables = [("PLEXUS_HUB", url.as_str()), ("PLEXUS_TOKEN", token.as_str())];
    let mut agent = Agent::start(&plexus, &["--agent", "codex"], &variables).await;
    let tools = agent.request("tools/list", json!({})).await["result"]["tools"].clone();
    assert_eq!(todo_texts(&agent.call(add("a")).await), ["a"]);
    // The token is not in the command line, which other processes can read.
    let command_line = std::fs::read(format!("/proc/{}/cmdline", agent.child.id().unwrap())).unwrap();
    assert!(!String::from_utf8_lossy(&command_line).contains(&token));

    hub.kill().await;
    assert_eq!(agent.request("tools/list", json!({})).await["result"]["tools"], tools);
    for text in ["b", "c"] {
        let queued = agent.call(add(text)).await;
        assert_eq!(queued["structuredContent"]["queued"], true, "{queued}");
    }
    let read = agent.request("tools/call", list()).await;
    assert_eq!(
        (&read["error"]["code"], &read["error"]["data"]["retryable"]),
        (&json!(-32002), &json!(true)),
        "{read}"
    );
    // A second proxy of the same agent shares the folder and has the same list.
    let mut other = Agent::start(&plexus, &["--agent", "codex"], &variables).await;
    assert_eq!(other.request("tools/list", json!({})).await["result"]["tools"], tools);
    other.close_input().await;

    let hub = up(&plexus, Some(&address)).await;
    assert_eq!(agent.todos_once(3).await, ["a", "b", "c"], "in the same session");
    let live = eventually("a write is not queued", async || {
        let written = agent.call(add("d")).await;
        if written["structuredContent"]["queued"] == true { Err(written) } else { Ok(todo_texts(&written)) }
    })
    .await;
    assert_eq!(live[..4], ["a", "b", "c", "d"]);
    let log = agent.close_input().await;
    assert!(!log.contains(&token), "{log}");
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn proxy_sends_the_folder_of_the_agent_to_the_hub() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let mut agent = Agent::start(&plexus, &[], &[]).await;
    agent.call(add("rewrite the importer")).await;
    let list = plexus.run(&["sessions", "list", "--json"]).await.json(0);
    let session = &list["items"][0];
    // The proxy runs in the home folder.
    assert_eq!(session["folder"], plexus.home().display().to_string(), "{session}");
    assert_eq!(session["title"], "rewrite the importer", "{session}");
    agent.close_input().await;
}

#[tokio::test]
async fn proxy_started_before_its_hub_finds_the_token_later() {
    let plexus = crate::plexus();
    let first = up(&plexus, None).await;
    let (address, url) = (first.address().to_string(), first.url(""));
    assert!(first.terminate().await.success());
    std::fs::remove_dir_all(plexus.data_dir()).unwrap();
    let mut agent = Agent::start(&plexus, &["--agent", "claude"], &[("PLEXUS_HUB", &url)]).await;
    assert_eq!(agent.request("tools/list", json!({})).await["result"]["tools"], json!([]));
    let hub = up(&plexus, Some(&address)).await;
    until("the tools are listed", async || {
        let answer = agent.request("tools/list", json!({})).await;
        answer["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty())
    })
    .await;
    assert_eq!(todo_texts(&agent.call(add("a")).await), ["a"]);
    let calls = hub.api("/api/v1/audit?tool=todo").await;
    assert_eq!(calls["items"][0]["actor"], "agent:claude", "{calls}");
    agent.close_input().await;
}

#[tokio::test]
async fn proxy_exits_at_end_of_input_and_on_signals() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let (url, token) = (hub.url(""), hub.token("agent").await.token);
    let variables = [("PLEXUS_HUB", url.as_str()), ("PLEXUS_TOKEN", token.as_str())];
    let mut subscriber = Agent::spawn(&plexus, &[], &variables);
    let meta = plexus_testkit::modern_meta();
    let params = json!({ "notifications": { "toolsListChanged": true }, "_meta": meta });
    subscriber
        .send_message(
            &json!({ "jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params }),
        )
        .await;
    let first = in_time("an acknowledgement", subscriber.output.next_line()).await.unwrap().unwrap();
    assert!(first.contains("acknowledged"), "{first}");
    subscriber.close_input().await;
    for signal in [Signal::TERM, Signal::INT] {
        let agent = Agent::start(&plexus, &[], &variables).await;
        send(&agent.child, signal);
        agent.wait_for_exit().await;
    }
}

/// A proxy on a local port, a client of it, and its printed announcement.
async fn start_http(plexus: &Plexus, variables: &[(&str, &str)]) -> (Child, McpClient, Value) {
    let mut command =
        plexus.command(env!("CARGO_BIN_EXE_plexus"), &["mcp", "--http", "127.0.0.1:0", "--json"]);
    let mut child = command.envs(variables.iter().copied()).spawn().expect("the program starts");
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = in_time("the announcement", output.next_line()).await.unwrap().expect("a line");
    let announced: Value = serde_json::from_str(&line).unwrap();
    let given = variables.iter().find(|(name, _)| *name == "PLEXUS_PROXY_SECRET").map(|(_, secret)| *secret);
    let secret = announced["secret"].as_str().or(given).expect("a secret").to_owned();
    let client =
        McpClient::new(plexus.http().clone(), announced["url"].as_str().unwrap().to_owned(), &secret);
    (child, client, announced)
}

#[tokio::test]
async fn http_proxy_prints_its_url_and_a_generated_secret() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let (url, token) = (hub.url(""), hub.token("agent").await.token);
    let variables = [("PLEXUS_HUB", url.as_str()), ("PLEXUS_TOKEN", token.as_str())];
    let (_one, first, announced) = start_http(&plexus, &variables).await;
    assert_eq!(announced["hub"], url);
    assert_eq!(announced["secret"].as_str().unwrap().len(), 64, "a generated secret");
    assert_eq!(todo_texts(&first.tool("todo", add("a")["arguments"].clone()).await), ["a"]);
    assert_eq!(first.header("authorization", &format!("Bearer {token}")).get().await.error(), (401, -32001));
    let (_two, _, other) = start_http(&plexus, &variables).await;
    assert_ne!(other["secret"], announced["secret"]);
    let given = [&variables[..], &[("PLEXUS_PROXY_SECRET", "a secret of sixteen or more")]].concat();
    let (_three, third, third_announced) = start_http(&plexus, &given).await;
    assert_eq!(third_announced["secret"], Value::Null, "a given secret is not printed");
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
    // An unusable folder is reported with a fix.
    let occupied_file = plexus.home().join("taken");
    std::fs::write(&occupied_file, "a file").unwrap();
    let folder = occupied_file.join("data").display().to_string();
    let unusable = [&variables[..], &[("PLEXUS_DATA_DIR", folder.as_str())]].concat();
    let refused = plexus.run_with(&["mcp", "--http", "127.0.0.1:0"], &unusable).await;
    let words = refused.failed(1);
    assert!(words.contains("PLEXUS_DATA_DIR") && words.contains("PLEXUS_PROXY=off"), "{words}");
}

#[tokio::test]
async fn disabled_proxy_stores_nothing() {
    let plexus = crate::plexus();
    let hub = up(&plexus, None).await;
    let (url, token) = (hub.url(""), hub.token("agent").await.token);
    for off in ["0", "false", "off", "OFF"] {
        let variables = [("PLEXUS_HUB", &*url), ("PLEXUS_TOKEN", &*token), ("PLEXUS_PROXY", off)];
        let mut agent = Agent::start(&plexus, &[], &variables).await;
        let written = agent.call(add("a")).await;
        assert_eq!(written["isError"], false, "{written}");
        agent.close_input().await;
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
async fn sdk_clients_work_with_and_without_a_hub() {
    let plexus = crate::plexus();
    let hub = up(&plexus, None).await;
    let (address, url) = (hub.address().to_string(), hub.url(""));
    let token = hub.token("agent").await.token;
    let variables = [("PLEXUS_HUB", url.as_str()), ("PLEXUS_TOKEN", token.as_str())];
    let (_proxy, client, announced) = start_http(&plexus, &variables).await;
    client.modern("tools/list", json!({})).await.result();
    // A proxy that the SDK starts uses the token from the data folder.
    let stdio_server = |calls: &Value| {
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
    let http_server = |calls: &Value| json!([{ "url": announced["url"], "calls": calls }]);
    let clients = crate::third_party::clients().await;
    let call_with_all_clients = async |calls: Value, check: &dyn Fn(&str, &Value)| {
        for (name, sdk, script) in &clients {
            let mut servers = vec![http_server(&calls)];
            if script.extension().is_some_and(|kind| kind == "mjs") {
                servers.push(stdio_server(&calls));
            }
            for server in servers {
                let secret = announced["secret"].as_str().unwrap();
                let mut running = sdk.script(script, &[&server.to_string()], secret);
                let report = running.line().await;
                running.end().await;
                assert!(report["tools"].as_array().unwrap().contains(&json!("todo")), "{name}: {report}");
                check(name, &report["results"]);
            }
        }
    };
    call_with_all_clients(
        json!([["todo", { "action": "clear" }], ["todo", { "action": "add", "text": "a" }]]),
        &|name, results| {
            assert_eq!(results[1]["structuredContent"]["items"][0]["text"], "a", "{name}: {results}");
        },
    )
    .await;
    hub.kill().await;
    // The SDKs validate the result of a queued write against the tool's schema.
    call_with_all_clients(json!([["todo", { "action": "add", "text": "b" }]]), &|name, results| {
        assert_eq!(results[0]["structuredContent"]["queued"], true, "{name}: {results}");
    })
    .await;
    let _hub = up(&plexus, Some(&address)).await;
}
