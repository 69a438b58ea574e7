//! An agent behind a `plexus mcp` of its own: it speaks one revision, through one of the two ways in.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plexus_store::outbox::{Limits, Outbox};
use plexus_testkit::{Plexus, modern_meta};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// For one answer: a write that the hub does not answer is kept after less.
const PATIENCE: Duration = Duration::from_secs(40);

/// How an agent reaches its proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Stdio,
    Http,
}

/// The process, for who may kill it at any time.
pub(crate) type Seat = Arc<Mutex<Option<Child>>>;

/// The proxy ended before it answered.
#[derive(Debug)]
pub(crate) struct Silence;

/// What a call was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// By the hub, under this number.
    Done {
        call_id: String,
    },
    Queued,
    /// The text of the error.
    Refused(String),
}

/// An agent and how its proxy is started, which is always the same.
#[derive(Debug)]
pub(crate) struct Proxied {
    machine: Arc<Plexus>,
    /// The URL of the hub.
    hub: String,
    token: String,
    name: String,
    session: String,
    version: &'static str,
    way: Way,
    /// Arguments of a program that starts the proxy, if there is one.
    through: Vec<String>,
    seat: Seat,
    wire: Option<Wire>,
    id: u64,
}

#[derive(Debug)]
enum Wire {
    Stdio(ChildStdin, BufReader<ChildStdout>),
    /// Address, secret, and session where the revision has one. The output stays open.
    Http(String, String, Option<String>, #[expect(dead_code, reason = "held open")] BufReader<ChildStdout>),
}

impl Proxied {
    /// Nothing is started yet.
    pub(crate) fn new(machine: Arc<Plexus>, hub: String, token: &str, name: &str) -> Self {
        Self {
            machine,
            hub,
            token: token.to_owned(),
            name: name.to_owned(),
            session: format!("{name}-talk"),
            version: "2026-07-28",
            way: Way::Stdio,
            through: vec![],
            seat: Seat::default(),
            wire: None,
            id: 0,
        }
    }

    pub(crate) fn speaking(self, version: &'static str, way: Way) -> Self {
        Self { version, way, ..self }
    }

    pub(crate) fn in_session(self, session: String) -> Self {
        Self { session, ..self }
    }

    /// With a program that starts the proxy, in front of it.
    pub(crate) fn through(self, program: &[String]) -> Self {
        Self { through: program.to_vec(), ..self }
    }

    /// The root folder, as the process sees it.
    pub(crate) fn root(&self) -> std::path::PathBuf {
        let seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        let id = seat.as_ref().and_then(Child::id).expect("a proxy that runs");
        format!("/proc/{id}/root").into()
    }

    pub(crate) fn seat(&self) -> Seat {
        self.seat.clone()
    }

    /// The outbox, as another process that shares it.
    pub(crate) async fn outbox(&self) -> Outbox {
        let clock = plexus_kit::Clock::system();
        let opened = Outbox::open(&self.folder().join("outbox.db"), clock, Limits::default()).await;
        opened.expect("an outbox").0
    }

    /// Where the proxy keeps what it keeps.
    pub(crate) fn folder(&self) -> std::path::PathBuf {
        let hub = self.hub.parse().expect("a URL");
        let whose = format!("agent:{}", self.name);
        plexus_proxy::proxy_folder(&self.machine.data_dir(), &self.name, &whose, &hub)
    }

    /// What the proxy said to its log, in all its runs.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> std::path::PathBuf {
        self.machine.home().join(format!("{}.log", self.name))
    }

    /// Starts the proxy and begins, as the client of this revision does.
    pub(crate) async fn start(&mut self) -> Result<(), Silence> {
        let binary = env!("CARGO_BIN_EXE_plexus");
        let own = ["mcp", "--json", "--agent", &self.name, "--session", &self.session];
        let mut words: Vec<&str> = self.through.iter().map(String::as_str).collect();
        words.push(binary);
        words.extend(own);
        if self.way == Way::Http {
            words.extend(["--http", "127.0.0.1:0"]);
        }
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_file());
        let mut child = self
            .machine
            .command(words[0], &words[1..])
            .env("PLEXUS_HUB", &self.hub)
            .env("PLEXUS_TOKEN", &self.token)
            .stdin(Stdio::piped())
            .stderr(log.expect("a log file"))
            .spawn()
            .expect("the program starts");
        let (stdin, stdout) =
            (child.stdin.take().expect("its input"), child.stdout.take().expect("its output"));
        let mut stdout = BufReader::new(stdout);
        *self.seat.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        self.wire = Some(match self.way {
            Way::Stdio => Wire::Stdio(stdin, stdout),
            Way::Http => {
                let mut line = String::new();
                let read = tokio::time::timeout(PATIENCE, stdout.read_line(&mut line)).await;
                if read.expect("it says where it is, in time").is_err() || line.is_empty() {
                    return Err(Silence);
                }
                let said: Value = serde_json::from_str(&line).expect("JSON");
                let text = |name: &str| said[name].as_str().expect("text").to_owned();
                Wire::Http(text("url"), text("secret"), None, stdout)
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

    /// Waits for the process to have ended, which it does by itself or was killed.
    pub(crate) async fn ended(&mut self) -> std::process::ExitStatus {
        self.wire = None;
        let child = self.seat.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut child = child.expect("a proxy that was started");
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        ended.expect("the proxy ends in time").expect("a status")
    }

    /// `SIGKILL`, and the end of the process.
    pub(crate) async fn kill(&mut self) {
        if let Some(child) = self.seat.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            child.start_kill().expect("it can be killed");
        }
        self.ended().await;
    }

    /// The names of the tools that it shows.
    pub(crate) async fn tools(&mut self) -> Result<Vec<String>, Silence> {
        let answer = self.request("tools/list", json!({})).await?;
        let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools: {answer}"));
        Ok(tools.iter().filter_map(|tool| Some(tool["name"].as_str()?.to_owned())).collect())
    }

    /// Calls a tool; the whole answer.
    pub(crate) async fn call(
        &mut self,
        tool: &str,
        arguments: Value,
        key: Option<&str>,
    ) -> Result<Value, Silence> {
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
    ) -> Result<Told, Silence> {
        let answer = self.call(tool, arguments, key).await?;
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        if answer["error"].is_object() || result["isError"] != false {
            let error = answer["error"]["message"].as_str().unwrap_or(text);
            return Ok(Told::Refused(error.to_owned()));
        }
        // The oldest revisions have nothing but the text.
        if result["structuredContent"]["queued"] == true || text.contains("is stored on this machine") {
            return Ok(Told::Queued);
        }
        let call_id = result["_meta"]["plexus/call-id"].as_str();
        Ok(Told::Done {
            call_id: call_id.unwrap_or_else(|| panic!("neither done nor queued: {answer}")).to_owned(),
        })
    }

    /// The text of a call that only reads.
    pub(crate) async fn read(&mut self, tool: &str, arguments: Value) -> Result<String, Silence> {
        let answer = self.call(tool, arguments, None).await?;
        assert_eq!(answer["result"]["isError"], false, "{tool}: {answer}");
        Ok(answer["result"]["content"][0]["text"].as_str().expect("text").to_owned())
    }

    async fn request(&mut self, method: &str, mut params: Value) -> Result<Value, Silence> {
        self.id += 1;
        if self.version == "2026-07-28" {
            let mut meta = modern_meta();
            if let (Some(meta), Some(more)) = (meta.as_object_mut(), params["_meta"].as_object()) {
                meta.extend(more.clone());
            }
            params["_meta"] = meta;
        }
        let body = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        let answer = tokio::time::timeout(PATIENCE, self.answered(&body)).await;
        answer.unwrap_or_else(|_| panic!("{} got no answer in time to {body}; {}", self.name, self.log()))
    }

    async fn send(&mut self, body: &Value) -> Result<(), Silence> {
        match &mut self.wire {
            Some(Wire::Stdio(stdin, _)) => {
                let line = format!("{body}\n");
                stdin.write_all(line.as_bytes()).await.map_err(|_| Silence)
            }
            _ => self.post(body).await.map(|_| ()),
        }
    }

    async fn answered(&mut self, body: &Value) -> Result<Value, Silence> {
        if let Some(Wire::Http(..)) = self.wire {
            let text = self.post(body).await?;
            return Ok(serde_json::from_str(&text).unwrap_or_else(|e| panic!("not JSON ({e}): {text}")));
        }
        self.send(body).await?;
        let Some(Wire::Stdio(_, stdout)) = &mut self.wire else { return Err(Silence) };
        loop {
            let mut line = String::new();
            let read = stdout.read_line(&mut line).await;
            if !matches!(read, Ok(read) if read > 0 && line.ends_with('\n')) {
                return Err(Silence);
            }
            let message: Value =
                serde_json::from_str(&line).unwrap_or_else(|e| panic!("not JSON ({e}): {line}"));
            // What is no answer is news.
            if message["id"] == body["id"] {
                return Ok(message);
            }
        }
    }

    /// Posts a message; the last of what came back.
    async fn post(&mut self, body: &Value) -> Result<String, Silence> {
        let Some(Wire::Http(url, secret, session, _)) = &mut self.wire else { return Err(Silence) };
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
        let response = request.send().await.map_err(|_| Silence)?;
        let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        if let Some(opened) = header("mcp-session-id") {
            *session = Some(opened);
        }
        let is_stream = header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let text = response.text().await.map_err(|_| Silence)?;
        if !is_stream {
            return Ok(text);
        }
        let last = text.lines().rev().find_map(|line| line.strip_prefix("data:"));
        last.map(|data| data.trim().to_owned()).ok_or(Silence)
    }
}
