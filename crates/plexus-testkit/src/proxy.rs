//! A proxy in this process, with a free port and its own folder.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plexus_kit::{Secret, Supervisor};
use plexus_proxy::{CredentialSource, Endpoint, Proxy, ProxyOptions, Timing};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::task::JoinSet;

use crate::{McpClient, http_client};

const SECRET: &str = "only-the-agent-of-this-test-knows";
/// Time limit for everything that a test waits for.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Capacity of a pipe.
const PIPE_CAPACITY: usize = 1 << 20;

/// Time limits that are short enough for tests.
pub fn proxy_timing() -> Timing {
    Timing {
        connect: Duration::from_secs(2),
        handshake: Duration::from_secs(2),
        write: Duration::from_secs(2),
        list: Duration::from_secs(2),
        silence: Duration::from_secs(5),
        keep_alive: Duration::from_millis(100),
        retry_delays: [Duration::from_millis(20), Duration::from_millis(200)],
        ..Timing::default()
    }
}

/// A running proxy; its folder is deleted with it.
#[derive(Debug)]
pub struct TestProxy {
    proxy: Proxy,
    endpoint: Endpoint,
    supervisor: Supervisor,
    folder: Arc<TempDir>,
    http: reqwest::Client,
}

impl TestProxy {
    /// Starts a proxy for the hub at `url` and an agent with this token.
    pub async fn start(url: &str, token: &str) -> Self {
        Self::start_with(url, token, |_| {}).await
    }

    /// The same with changed options.
    pub async fn start_with(url: &str, token: &str, change: impl FnOnce(&mut ProxyOptions)) -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        Self::start_in(folder, url, token, change).await
    }

    /// The same in the folder of another proxy.
    pub async fn start_in(
        folder: Arc<TempDir>,
        url: &str,
        token: &str,
        change: impl FnOnce(&mut ProxyOptions),
    ) -> Self {
        let http = http_client();
        let credential = CredentialSource::Token(Secret::from(token));
        let url = url.parse().expect("the URL of a hub");
        let mut options = ProxyOptions::new(url, credential, "agent", folder.path().join("agent"));
        options.timing = proxy_timing();
        change(&mut options);
        let supervisor = Supervisor::new();
        let proxy = Proxy::open(options, &supervisor).await.expect("the proxy opens");
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let endpoint = proxy.listen(address, &Secret::from(SECRET)).await.expect("an endpoint");
        Self { proxy, endpoint, supervisor, folder, http }
    }

    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    pub fn url(&self) -> &str {
        &self.endpoint.url
    }

    pub fn address(&self) -> SocketAddr {
        self.endpoint.address
    }

    pub fn secret(&self) -> &'static str {
        SECRET
    }

    /// The folder of its files.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().join("agent")
    }

    /// A client over HTTP.
    pub fn client(&self) -> McpClient {
        McpClient::new(self.http.clone(), self.endpoint.url.clone(), SECRET)
    }

    /// A client over stdio.
    pub fn stdio_client(&self) -> StdioClient {
        let (input, from_client) = tokio::io::duplex(PIPE_CAPACITY);
        let (to_client, output) = tokio::io::duplex(PIPE_CAPACITY);
        let proxy = self.proxy.clone();
        let mut server_task = JoinSet::new();
        server_task.spawn(async move {
            proxy
                .serve_stdio(BufReader::new(from_client), to_client)
                .await
                .expect("an input that can be read");
        });
        StdioClient {
            input: Some(input),
            output: BufReader::new(output).lines(),
            received: vec![],
            next_id: 0,
            server_task,
        }
    }

    /// Stops it; returns the folder for another proxy.
    pub async fn stop(self) -> Arc<TempDir> {
        let Self { proxy, supervisor, folder, .. } = self;
        drop(proxy);
        let drained = supervisor.shutdown(TIMEOUT).await;
        assert!(drained.aborted.is_empty(), "had to be aborted: {:?}", drained.aborted);
        folder
    }
}

/// A client that sends one message per line.
#[derive(Debug)]
pub struct StdioClient {
    input: Option<DuplexStream>,
    output: Lines<BufReader<DuplexStream>>,
    /// Messages that arrived before they were requested.
    received: Vec<Value>,
    next_id: u64,
    server_task: JoinSet<()>,
}

impl StdioClient {
    /// Sends a line unchanged.
    pub async fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it has not hung up");
        input.write_all(format!("{line}\n").as_bytes()).await.expect("the proxy reads");
    }

    /// The next line of the proxy; `None` at the end.
    pub async fn line(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(TIMEOUT, self.output.next_line()).await.expect("a line in time");
        let line = line.expect("UTF-8")?;
        Some(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}")))
    }

    /// Begins a request; returns its id.
    pub async fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send_line(
            &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string(),
        )
        .await;
        id
    }

    /// The answer to a request.
    pub async fn answer(&mut self, id: u64) -> Value {
        let is_answer = |message: &Value| message["id"] == id && message["method"].is_null();
        if let Some(index) = self.received.iter().position(is_answer) {
            return self.received.remove(index);
        }
        loop {
            let message = self.line().await.expect("an answer before the end");
            if is_answer(&message) {
                return message;
            }
            self.received.push(message);
        }
    }

    /// Makes a request and returns its answer.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.answer(id).await
    }

    /// The same in revision 2026-07-28.
    pub async fn modern(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin_modern(method, params).await;
        self.answer(id).await
    }

    pub async fn begin_modern(&mut self, method: &str, mut params: Value) -> u64 {
        params["_meta"] = crate::modern_meta();
        self.begin(method, params).await
    }

    /// Opens a session; returns the proxy's greeting.
    pub async fn initialize(&mut self, version: &str) -> Value {
        let client = json!({ "name": "testkit", "version": "1" });
        let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
        let answer = self.request("initialize", params).await;
        self.send_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        answer["result"].clone()
    }

    /// The next message with this method.
    pub async fn next_message(&mut self, method: &str) -> Value {
        if let Some(index) = self.received.iter().position(|message| message["method"] == method) {
            return self.received.remove(index);
        }
        loop {
            let message = self.line().await.expect("news before the end");
            if message["method"] == method {
                return message;
            }
            self.received.push(message);
        }
    }

    /// The unsolicited messages so far.
    pub fn take_unsolicited(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.received)
    }

    /// Closes the input and waits until the proxy has closed its output; returns the remaining messages.
    pub async fn hang_up(mut self) -> Vec<Value> {
        self.input = None;
        while let Some(message) = self.line().await {
            self.received.push(message);
        }
        let ended = tokio::time::timeout(TIMEOUT, self.server_task.join_next()).await;
        ended.expect("the proxy ends its side in time").expect("one task").expect("without a panic");
        self.received
    }
}
