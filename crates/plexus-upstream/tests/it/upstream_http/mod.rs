//! The client side: connections to servers of every transport and era.

mod busy;
mod faults;
mod foreign;
mod http;
mod net;
mod questions;
mod recovery;
mod scripted;
mod sessions;
mod sse;
mod watching;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plexus_kit::{Environment, Secret, Supervisor};
use plexus_proto::api::UpstreamEra;
use plexus_tools::{Capabilities, ForeignOutput, ProgressSink};
use plexus_upstream::client::{
    Bridge, CallResponse, Client, ClientError, ClientSettings, Connect, Inputs, Listener, Outgoing,
    ServerChange, StderrRing,
};
use plexus_upstream::config::{Approve, HttpAuth, HttpConfig, ServerConfig, ToolRules, Transport};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(20);

/// A time limit for tests; a hub that hangs fails here.
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

/// A background activity that ends when dropped.
struct BackgroundTask<T>(JoinSet<T>);

fn spawn_background<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> BackgroundTask<T> {
    let mut set = JoinSet::new();
    set.spawn(work);
    BackgroundTask(set)
}

impl<T: 'static> BackgroundTask<T> {
    async fn finished(mut self) -> T {
        in_time(self.0.join_next()).await.expect("one task").expect("no panic")
    }
}

/// Counts notifications about tools.
#[derive(Default)]
struct ToolChangeCounter {
    changes: AtomicU64,
    notified: Notify,
}

impl Listener for ToolChangeCounter {
    fn on_change(&self, change: ServerChange) {
        if change == ServerChange::Tools {
            self.changes.fetch_add(1, Ordering::SeqCst);
            self.notified.notify_one();
        }
    }
}

impl ToolChangeCounter {
    fn count(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Waits until the count exceeds this.
    async fn wait_until_more_than(&self, count: u64) {
        in_time(async {
            while self.count() <= count {
                self.notified.notified().await;
            }
        })
        .await;
    }
}

/// The parameters of a connection to a server over HTTP.
struct ConnectParams {
    http: HttpConfig,
    older: bool,
    known_era: Option<UpstreamEra>,
    settings: ClientSettings,
    change_counter: Arc<ToolChangeCounter>,
    supervisor: Supervisor,
    capabilities: Capabilities,
}

impl ConnectParams {
    fn to(url: &str) -> Self {
        Self {
            http: HttpConfig {
                url: Secret::from(url),
                headers: BTreeMap::new(),
                allow_private: false,
                guessed: false,
                auth: HttpAuth::default(),
            },
            older: false,
            known_era: None,
            settings: ClientSettings {
                connect_timeout: Duration::from_secs(10),
                ..ClientSettings::default()
            },
            change_counter: Arc::default(),
            supervisor: Supervisor::new(),
            capabilities: Capabilities::default(),
        }
    }

    /// Uses the transport of 2024-11-05.
    fn with_older_transport(mut self) -> Self {
        self.older = true;
        self
    }

    /// Declares these capabilities in the session.
    fn with_capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    fn with_guessed_transport(mut self) -> Self {
        self.http.guessed = true;
        self
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.http.headers.insert(name.to_owned(), Secret::from(value));
        self
    }

    fn with_known_era(mut self, era: UpstreamEra) -> Self {
        self.known_era = Some(era);
        self
    }

    fn with_timeout(mut self, patience: Duration) -> Self {
        self.settings.connect_timeout = patience;
        self
    }

    fn with_max_message(mut self, bytes: usize) -> Self {
        self.settings.max_message = bytes;
        self
    }

    fn connect_config(&self) -> Connect {
        let transport = if self.older {
            Transport::Sse(self.http.clone())
        } else {
            Transport::StreamableHttp(self.http.clone())
        };
        Connect {
            config: Arc::new(server(transport)),
            environment: Environment::default(),
            known_era: self.known_era,
            listener: self.change_counter.clone(),
            supervisor: self.supervisor.clone(),
            stderr: Arc::new(StderrRing::new()),
            chatter: Arc::default(),
            settings: self.settings.clone(),
            capabilities: self.capabilities,
            account: None,
        }
    }

    async fn try_connect(&self) -> Result<Client, ClientError> {
        in_time(Client::connect(self.connect_config())).await
    }

    async fn connect(&self) -> Client {
        self.try_connect().await.expect("a connection")
    }

    /// The error of a failed connection.
    async fn connect_error(&self) -> String {
        self.try_connect().await.expect_err("no connection").to_string()
    }
}

fn server(transport: Transport) -> ServerConfig {
    ServerConfig {
        name: "tested".to_owned(),
        slug: "tested".to_owned(),
        file: "tested.json".into(),
        enabled: true,
        lazy: false,
        per_session: false,
        questions: true,
        transport,
        groups: BTreeMap::new(),
        instructions: None,
        tools: ToolRules::default(),
        timeout: PATIENCE,
        max_concurrency: None,
        bare_names: false,
        approve: Approve::Tofu,
        inject: BTreeMap::new(),
        warnings: Vec::new(),
        fingerprint: 0,
        presentation: 0,
    }
}

fn outgoing(tool: &str, arguments: Value) -> Outgoing {
    let (progress, trace) = (None, None);
    Outgoing {
        tool: tool.to_owned(),
        arguments: arguments.into(),
        progress,
        cancel: CancellationToken::new(),
        trace,
        bridge: Bridge::default(),
        inputs: Inputs::default(),
        as_task: false,
    }
}

/// The result of a call that asks nothing.
type ToolResult = Result<ForeignOutput, ClientError>;

async fn call(client: &Client, tool: &str, arguments: Value) -> ToolResult {
    expect_output(in_time(client.call(outgoing(tool, arguments))).await)
}

fn expect_output(response: Result<CallResponse, ClientError>) -> ToolResult {
    response.map(|response| match response {
        CallResponse::Output(output) => output,
        other => panic!("no result: {other:?}"),
    })
}

async fn echo(client: &Client, text: &str) -> ToolResult {
    call(client, "echo", json!({ "text": text })).await
}

/// The first text of a result.
fn text(output: &ForeignOutput) -> String {
    let blocks: Vec<Value> = output.content.parsed().expect("content blocks");
    blocks[0]["text"].as_str().expect("a text").to_owned()
}

fn structured(output: &ForeignOutput) -> Value {
    output.structured.as_ref().expect("data").parsed().expect("JSON")
}

/// A call of `slow` that has begun and reported progress.
async fn start_slow_call(
    client: &Client,
    arguments: Value,
) -> (BackgroundTask<ToolResult>, CancellationToken) {
    let progress = Arc::new(Notify::new());
    let notify = progress.clone();
    let sink: ProgressSink = Arc::new(move |_| notify.notify_one());
    let slow = Outgoing { progress: Some(sink), ..outgoing("slow", arguments) };
    let cancel = slow.cancel.clone();
    let client = client.clone();
    let task = spawn_background(async move { expect_output(client.call(slow).await) });
    in_time(progress.notified()).await;
    (task, cancel)
}
