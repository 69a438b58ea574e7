//! The exchange between clients and servers of both eras, feature by feature.
//!
//! `matrix` states the expected outcome of each of the four directions and is the source of
//! `docs/bridging.md`; a test here tries a row in all directions against the fixture server over HTTP, and
//! fails on any other outcome.

mod matrix;
mod notifications;
mod questions;
mod resources_and_prompts;
mod shared;
mod tasks;

use std::sync::Mutex;

use plexus_testkit::fixture::{Eras, Fixture, HttpFixture};
use plexus_testkit::{ClientRevision, InteractiveClient, QuestionReply, RequestError, TestHub, TestProxy};
use serde_json::{Value, json};

use self::matrix::{AttemptOutcome, Row};

/// The newest revision that has sessions.
const NEWEST_SESSION: &str = "2025-11-25";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Session,
    Stateless,
}

/// From a client of one era to a server of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Direction {
    client: Era,
    upstream: Era,
}

impl Direction {
    /// In the order of the columns.
    const ALL: [Self; 4] = [
        Self { client: Era::Session, upstream: Era::Session },
        Self { client: Era::Session, upstream: Era::Stateless },
        Self { client: Era::Stateless, upstream: Era::Session },
        Self { client: Era::Stateless, upstream: Era::Stateless },
    ];

    /// The server's name in the hub.
    fn server(self) -> &'static str {
        match self.upstream {
            Era::Session => "old",
            Era::Stateless => "new",
        }
    }

    fn tool(self, name: &str) -> String {
        format!("mcp__{}__{name}", self.server())
    }

    fn speaks(self) -> ClientRevision {
        match self.client {
            Era::Session => ClientRevision::Session(NEWEST_SESSION),
            Era::Stateless => ClientRevision::Stateless,
        }
    }
}

/// How clients connect to the hub.
enum HubAccess {
    Direct,
    /// Each through its own proxy.
    Proxies(Mutex<Vec<TestProxy>>),
}

/// A hub with a server of each era behind it.
struct Scene {
    hub: TestHub,
    access: HubAccess,
    _servers: [HttpFixture; 2],
}

impl Scene {
    async fn start() -> Self {
        Self::with(Eras::Sessions).await
    }

    /// With these revisions of the server with sessions.
    async fn with(old: Eras) -> Self {
        Self::at(TestHub::start().await, old).await
    }

    async fn at(hub: TestHub, old: Eras) -> Self {
        let servers =
            [Fixture::new().only(old).start().await, Fixture::new().only(Eras::Stateless).start().await];
        for (name, server) in ["old", "new"].into_iter().zip(&servers) {
            hub.add_upstream(name, &json!({ "url": server.url(), "approve": "auto" })).await;
        }
        Self { hub, access: HubAccess::Direct, _servers: servers }
    }

    /// The same for clients behind a proxy.
    fn behind_proxies(self) -> Self {
        Self { access: HubAccess::Proxies(Mutex::default()), ..self }
    }

    /// A client that sees the one server of this direction.
    async fn client(&self, direction: Direction, capabilities: Value) -> InteractiveClient {
        self.client_that_speaks(direction, direction.speaks(), capabilities).await
    }

    async fn client_that_speaks(
        &self,
        direction: Direction,
        speaks: ClientRevision,
        capabilities: Value,
    ) -> InteractiveClient {
        let server = direction.server();
        let scopes = [format!("call:mcp__{server}"), format!("call:mcp__{server}__*")];
        let token = self.hub.token("bridge", &scopes.each_ref().map(String::as_str)).await.token;
        match &self.access {
            HubAccess::Direct => InteractiveClient::connect(&self.hub, &token, speaks, capabilities).await,
            HubAccess::Proxies(proxies) => {
                let proxy = TestProxy::start(&self.hub.url(""), &token).await;
                let client = InteractiveClient::with(&proxy.client(), speaks, capabilities).await;
                proxies.lock().unwrap().push(proxy);
                client
            }
        }
    }

    /// A client with all capabilities.
    async fn fully_capable_client(&self, direction: Direction) -> InteractiveClient {
        self.client(direction, all_capabilities()).await
    }

    /// A list once it is not empty: the other offers of servers are listed after their tools.
    async fn listed(&self, client: &InteractiveClient, method: &str, member: &str) -> Vec<Value> {
        let mut changes = self.hub.upstreams().changes();
        let list_ready = async {
            loop {
                let list = client.request(method, json!({})).await.expect("a list")[member].clone();
                match list.as_array().filter(|list| !list.is_empty()) {
                    Some(list) => return list.clone(),
                    None => changes.changed().await.expect("the hub runs"),
                }
            }
        };
        let patience = std::time::Duration::from_secs(20);
        tokio::time::timeout(patience, list_ready).await.unwrap_or_else(|_| panic!("nothing in {method}"))
    }
}

/// The capabilities of a client that can be asked everything.
fn all_capabilities() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {}, "context": {} }, "roots": {} })
}

/// A person and a model that answer every question.
fn answer_everything(method: &str, params: &Value) -> QuestionReply {
    QuestionReply::Result(match (method, params["mode"].as_str()) {
        ("elicitation/create", Some("url")) => json!({ "action": "accept" }),
        ("elicitation/create", _) => {
            let fields = params["requestedSchema"]["properties"].as_object().cloned().unwrap_or_default();
            let value = |schema: &Value| match schema["type"].as_str() {
                Some("boolean") => json!(true),
                _ => json!("Ann"),
            };
            let content: Value = fields.iter().map(|(name, schema)| (name.clone(), value(schema))).collect();
            json!({ "action": "accept", "content": content })
        }
        ("sampling/createMessage", _) => json!({
            "role": "assistant", "model": "a model", "stopReason": "endTurn",
            "content": { "type": "text", "text": "written by the client's model" },
        }),
        ("roots/list", _) => json!({ "roots": [{ "uri": "file:///home/ann/work", "name": "work" }] }),
        (other, _) => panic!("nobody can be asked {other}"),
    })
}

/// Tries a row of the matrix in all its directions, directly and through a proxy, which changes nothing.
async fn in_every_direction(feature: &str, attempt: impl AsyncFn(&Scene, Direction) -> AttemptOutcome) {
    in_every_direction_from(Scene::start, feature, attempt).await;
}

/// The same with custom scenes.
async fn in_every_direction_from(
    scene: impl AsyncFn() -> Scene,
    feature: &str,
    attempt: impl AsyncFn(&Scene, Direction) -> AttemptOutcome,
) {
    in_every_direction_of(&scene().await, feature, &attempt).await;
    in_every_direction_of(&scene().await.behind_proxies(), feature, &attempt).await;
}

async fn in_every_direction_of(
    scene: &Scene,
    feature: &str,
    attempt: impl AsyncFn(&Scene, Direction) -> AttemptOutcome,
) {
    let row = Row::of(feature);
    for direction in Direction::ALL {
        if row.expected(direction).is_applicable() {
            let outcome = attempt(scene, direction).await;
            row.check(direction, &outcome);
        }
    }
}

/// The result of a request that should succeed.
fn ended<T>(result: Result<T, RequestError>, holds: impl FnOnce(T)) -> AttemptOutcome {
    match result {
        Ok(result) => {
            holds(result);
            AttemptOutcome::Passed
        }
        Err(error) => AttemptOutcome::Refused(error.code),
    }
}
