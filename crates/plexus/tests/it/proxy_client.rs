//! An agent with its own `plexus mcp`, in one revision and over stdio or HTTP.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plexus_store::outbox::{Limits, Outbox};
use plexus_testkit::{Plexus, messages_of, modern_meta};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// Time limit for an answer. The proxy queues a write that the hub does not answer within less.
const TIMEOUT: Duration = Duration::from_secs(40);

/// How an agent reaches its proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    Http,
}

/// The process of the proxy, shared so that a fault can kill it.
pub(crate) type SharedProcess = Arc<Mutex<Option<Child>>>;

/// The proxy ended before it answered.
#[derive(Debug)]
pub(crate) struct ProxyEnded;

/// The answer to a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// The hub has done it.
    Done {
        call_id: String,
    },
    Queued,
    /// The error message.
    Refused(String),
}

/// An agent, and how its proxy is started and restarted.
#[derive(Debug)]
pub(crate) struct ProxyClient {
    machine: Arc<Plexus>,
    /// The URL of the hub.
    hub: String,
    token: String,
    name: String,
    session: String,
    version: &'static str,
    transport: Transport,
    /// A program with arguments that runs the proxy; empty for none.
    wrapper: Vec<String>,
    process: SharedProcess,
    connection: Option<Connection>,
    id: u64,
}

#[derive(Debug)]
enum Connection {
    Stdio(ChildStdin, BufReader<ChildStdout>),
    /// URL, secret, and session id if the revision has one. The output stays open.
    Http(String, String, Option<String>, #[expect(dead_code, reason = "held open")] BufReader<ChildStdout>),
}

impl ProxyClient {
    /// Does not start the proxy yet.
    pub(crate) fn new(machine: Arc<Plexus>, hub: String, token: &str, name: &str) -> Self {
        Self {
            machine,
            hub,
            token: token.to_owned(),
            name: name.to_owned(),
            session: format!("{name}-talk"),
            version: "2026-07-28",
            transport: Transport::Stdio,
            wrapper: vec![],
            process: SharedProcess::default(),
            connection: None,
            id: 0,
        }
    }

    pub(crate) fn with_protocol(self, version: &'static str, transport: Transport) -> Self {
        Self { version, transport, ..self }
    }

    pub(crate) fn with_session(self, session: String) -> Self {
        Self { session, ..self }
    }

    /// Runs the proxy with a wrapper program.
    pub(crate) fn with_wrapper(self, program: &[String]) -> Self {
        Self { wrapper: program.to_vec(), ..self }
    }

    /// The root folder in the mount namespace of the proxy.
    pub(crate) fn root(&self) -> std::path::PathBuf {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let id = process.as_ref().and_then(Child::id).expect("a proxy that runs");
        format!("/proc/{id}/root").into()
    }

    pub(crate) fn process(&self) -> SharedProcess {
        self.process.clone()
    }

    /// The outbox, opened like by another process that shares it.
    pub(crate) async fn outbox(&self) -> Outbox {
        let clock = plexus_kit::Clock::system();
        let opened = Outbox::open(&self.folder().join("outbox.db"), clock, Limits::default()).await;
        opened.expect("an outbox").0
    }

    /// The proxy's folder for cached lists and the outbox.
    pub(crate) fn folder(&self) -> std::path::PathBuf {
        let hub = self.hub.parse().expect("a URL");
        let subject = format!("agent:{}", self.name);
        plexus_proxy::proxy_folder(&self.machine.data_dir(), &self.name, &subject, &hub)
    }

    /// The log of all runs of the proxy.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> std::path::PathBuf {
        self.machine.home().join(format!("{}.log", self.name))
    }

    /// Starts the proxy, and opens a session if the revision has sessions.
    pub(crate) async fn start(&mut self) -> Result<(), ProxyEnded> {
        let binary = env!("CARGO_BIN_EXE_plexus");
        let own_args = ["mcp", "--json", "--agent", &self.name, "--session", &self.session];
        let mut command_line: Vec<&str> = self.wrapper.iter().map(String::as_str).collect();
        command_line.push(binary);
        command_line.extend(own_args);
        if self.transport == Transport::Http {
            command_line.extend(["--http", "127.0.0.1:0"]);
        }
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_file());
        let mut child = self
            .machine
            .command(command_line[0], &command_line[1..])
            .env("PLEXUS_HUB", &self.hub)
            .env("PLEXUS_TOKEN", &self.token)
            .stdin(Stdio::piped())
            .stderr(log.expect("a log file"))
            .spawn()
            .expect("the program starts");
        let (stdin, stdout) =
            (child.stdin.take().expect("its input"), child.stdout.take().expect("its output"));
        let mut stdout = BufReader::new(stdout);
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        self.connection = Some(match self.transport {
            Transport::Stdio => Connection::Stdio(stdin, stdout),
            Transport::Http => {
                let mut line = String::new();
                let read = tokio::time::timeout(TIMEOUT, stdout.read_line(&mut line)).await;
                if read.expect("it prints its address in time").is_err() || line.is_empty() {
                    return Err(ProxyEnded);
                }
                let announced: Value = serde_json::from_str(&line).expect("JSON");
                let text = |name: &str| announced[name].as_str().expect("text").to_owned();
                Connection::Http(text("url"), text("secret"), None, stdout)
            }
        });
        if self.version != "2026-07-28" {
            let params = json!({
                "protocolVersion": self.version,
                "capabilities": {},
                "clientInfo": { "name": "testkit", "version": "1" },
            });
            let answer = self.request("initialize", params).await?;
            assert_eq!(answer["result"]["protocolVersion"], self.version, "{answer}");
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        }
        Ok(())
    }

    /// Waits for the process to end.
    pub(crate) async fn wait(&mut self) -> std::process::ExitStatus {
        self.connection = None;
        let child = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut child = child.expect("a proxy that was started");
        let ended = tokio::time::timeout(TIMEOUT, child.wait()).await;
        ended.expect("the proxy ends in time").expect("a status")
    }

    /// Kills the process and waits for its end.
    pub(crate) async fn kill(&mut self) {
        if let Some(child) = self.process.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            child.start_kill().expect("it can be killed");
        }
        self.wait().await;
    }

    /// The names of the tools that the proxy lists.
    pub(crate) async fn tools(&mut self) -> Result<Vec<String>, ProxyEnded> {
        let answer = self.request("tools/list", json!({})).await?;
        let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools: {answer}"));
        Ok(tools.iter().filter_map(|tool| Some(tool["name"].as_str()?.to_owned())).collect())
    }

    /// Calls a tool; returns the whole answer.
    pub(crate) async fn call(
        &mut self,
        tool: &str,
        arguments: Value,
        key: Option<&str>,
    ) -> Result<Value, ProxyEnded> {
        let mut params = json!({ "name": tool, "arguments": arguments });
        if let Some(key) = key {
            params["_meta"] = json!({ "plexus/idempotency-key": key });
        }
        self.request("tools/call", params).await
    }

    /// Calls a tool that writes.
    pub(crate) async fn write(
        &mut self,
        tool: &str,
        arguments: Value,
        key: Option<&str>,
    ) -> Result<WriteOutcome, ProxyEnded> {
        let answer = self.call(tool, arguments, key).await?;
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        if answer["error"].is_object() || result["isError"] != false {
            let error = answer["error"]["message"].as_str().unwrap_or(text);
            return Ok(WriteOutcome::Refused(error.to_owned()));
        }
        // The oldest revisions have only the text.
        if result["structuredContent"]["queued"] == true || text.contains("is stored on this machine") {
            return Ok(WriteOutcome::Queued);
        }
        let call_id = result["_meta"]["plexus/call-id"].as_str();
        Ok(WriteOutcome::Done {
            call_id: call_id.unwrap_or_else(|| panic!("neither done nor queued: {answer}")).to_owned(),
        })
    }

    /// Calls a tool that reads; returns the text of the result.
    pub(crate) async fn read(&mut self, tool: &str, arguments: Value) -> Result<String, ProxyEnded> {
        let answer = self.call(tool, arguments, None).await?;
        assert_eq!(answer["result"]["isError"], false, "{tool}: {answer}");
        Ok(answer["result"]["content"][0]["text"].as_str().expect("text").to_owned())
    }

    async fn request(&mut self, method: &str, mut params: Value) -> Result<Value, ProxyEnded> {
        self.id += 1;
        if self.version == "2026-07-28" {
            let mut meta = modern_meta();
            if let (Some(meta), Some(more)) = (meta.as_object_mut(), params["_meta"].as_object()) {
                meta.extend(more.clone());
            }
            params["_meta"] = meta;
        }
        let body = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        let answer = tokio::time::timeout(TIMEOUT, self.answered(&body)).await;
        answer.unwrap_or_else(|_| panic!("{} got no answer in time to {body}; {}", self.name, self.log()))
    }

    async fn send(&mut self, body: &Value) -> Result<(), ProxyEnded> {
        match &mut self.connection {
            Some(Connection::Stdio(stdin, _)) => {
                let line = format!("{body}\n");
                stdin.write_all(line.as_bytes()).await.map_err(|_| ProxyEnded)
            }
            _ => self.post(body).await.map(|_| ()),
        }
    }

    async fn answered(&mut self, body: &Value) -> Result<Value, ProxyEnded> {
        if let Some(Connection::Http(..)) = self.connection {
            let text = self.post(body).await?;
            return Ok(serde_json::from_str(&text).unwrap_or_else(|e| panic!("not JSON ({e}): {text}")));
        }
        self.send(body).await?;
        let Some(Connection::Stdio(_, stdout)) = &mut self.connection else { return Err(ProxyEnded) };
        loop {
            let mut line = String::new();
            let read = stdout.read_line(&mut line).await;
            if !matches!(read, Ok(read) if read > 0 && line.ends_with('\n')) {
                return Err(ProxyEnded);
            }
            let message: Value =
                serde_json::from_str(&line).unwrap_or_else(|e| panic!("not JSON ({e}): {line}"));
            // Other messages are notifications.
            if message["id"] == body["id"] {
                return Ok(message);
            }
        }
    }

    /// Posts a message; returns the last message of the response.
    async fn post(&mut self, body: &Value) -> Result<String, ProxyEnded> {
        let Some(Connection::Http(url, secret, session, _)) = &mut self.connection else {
            return Err(ProxyEnded);
        };
        let mut request = self
            .machine
            .http()
            .post(url.as_str())
            .bearer_auth(&secret)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", self.version)
            .json(body);
        if let Some(session) = session {
            request = request.header("mcp-session-id", session.as_str());
        }
        if self.version == "2026-07-28" {
            request = request.header("mcp-method", body["method"].as_str().expect("a method"));
            if let Some(name) = body["params"]["name"].as_str() {
                request = request.header("mcp-name", name);
            }
        }
        let response = request.send().await.map_err(|_| ProxyEnded)?;
        let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        if let Some(opened) = header("mcp-session-id") {
            *session = Some(opened);
        }
        let is_stream = header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let text = response.text().await.map_err(|_| ProxyEnded)?;
        if !is_stream {
            return Ok(text);
        }
        messages_of(&text).last().map(Value::to_string).ok_or(ProxyEnded)
    }
}
