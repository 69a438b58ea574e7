//! The client side: connections to servers of every transport and era.

mod asking;
mod busy;
mod faults;
mod foreign;
mod http;
mod net;
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
    Bridge, Client, ClientError, ClientSettings, Connect, Inputs, Listener, News, Outgoing, Returned,
    StderrRing,
};
use plexus_upstream::config::{Approve, HttpAuth, HttpConfig, ServerConfig, ToolRules, Transport};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(20);

/// A time limit for tests; a hub that hangs fails here.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("in time")
}

/// A background activity that ends when dropped.
struct Beside<T>(JoinSet<T>);

fn beside<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Beside<T> {
    let mut set = JoinSet::new();
    set.spawn(work);
    Beside(set)
}

impl<T: 'static> Beside<T> {
    async fn done(mut self) -> T {
        soon(self.0.join_next()).await.expect("one task").expect("no panic")
    }
}

/// Counts notifications about tools.
#[derive(Default)]
struct Ears {
    heard: AtomicU64,
    news: Notify,
}

impl Listener for Ears {
    fn heard(&self, news: News) {
        if news == News::Tools {
            self.heard.fetch_add(1, Ordering::SeqCst);
            self.news.notify_one();
        }
    }
}

impl Ears {
    fn count(&self) -> u64 {
        self.heard.load(Ordering::SeqCst)
    }

    /// Waits until the count exceeds this.
    async fn more_than(&self, count: u64) {
        soon(async {
            while self.count() <= count {
                self.news.notified().await;
            }
        })
        .await;
    }
}

/// The parameters of a connection to a server over HTTP.
struct Way {
    http: HttpConfig,
    older: bool,
    known_era: Option<UpstreamEra>,
    settings: ClientSettings,
    ears: Arc<Ears>,
    supervisor: Supervisor,
    capabilities: Capabilities,
}

impl Way {
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
            ears: Arc::default(),
            supervisor: Supervisor::new(),
            capabilities: Capabilities::default(),
        }
    }

    /// Uses the transport of 2024-11-05.
    fn older(mut self) -> Self {
        self.older = true;
        self
    }

    /// Declares these capabilities in the session.
    fn asked(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    fn guessed(mut self) -> Self {
        self.http.guessed = true;
        self
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.http.headers.insert(name.to_owned(), Secret::from(value));
        self
    }

    fn known(mut self, era: UpstreamEra) -> Self {
        self.known_era = Some(era);
        self
    }

    fn patience(mut self, patience: Duration) -> Self {
        self.settings.connect_timeout = patience;
        self
    }

    fn at_most(mut self, bytes: usize) -> Self {
        self.settings.max_message = bytes;
        self
    }

    fn ready(&self) -> Connect {
        let transport = if self.older {
            Transport::Sse(self.http.clone())
        } else {
            Transport::StreamableHttp(self.http.clone())
        };
        Connect {
            config: Arc::new(server(transport)),
            environment: Environment::default(),
            known_era: self.known_era,
            listener: self.ears.clone(),
            supervisor: self.supervisor.clone(),
            stderr: Arc::new(StderrRing::new()),
            chatter: Arc::default(),
            settings: self.settings.clone(),
            capabilities: self.capabilities,
            account: None,
        }
    }

    async fn try_connect(&self) -> Result<Client, ClientError> {
        soon(Client::connect(self.ready())).await
    }

    async fn connect(&self) -> Client {
        self.try_connect().await.expect("a connection")
    }

    /// The error of a failed connection.
    async fn refused(&self) -> String {
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
type Called = Result<ForeignOutput, ClientError>;

async fn call(client: &Client, tool: &str, arguments: Value) -> Called {
    whole(soon(client.call(outgoing(tool, arguments))).await)
}

fn whole(returned: Result<Returned, ClientError>) -> Called {
    returned.map(|returned| match returned {
        Returned::Output(output) => output,
        other => panic!("no result: {other:?}"),
    })
}

async fn echo(client: &Client, text: &str) -> Called {
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
async fn begun(client: &Client, arguments: Value) -> (Beside<Called>, CancellationToken) {
    let progress = Arc::new(Notify::new());
    let heard = progress.clone();
    let sink: ProgressSink = Arc::new(move |_| heard.notify_one());
    let slow = Outgoing { progress: Some(sink), ..outgoing("slow", arguments) };
    let cancel = slow.cancel.clone();
    let client = client.clone();
    let task = beside(async move { whole(client.call(slow).await) });
    soon(progress.notified()).await;
    (task, cancel)
}
