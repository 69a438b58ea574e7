//! The scripted model, queried by a plain HTTP client.

mod chat;
mod messages;
mod responses;
mod script;

use std::time::Duration;

use plexus_testkit::SseStream;
use plexus_testkit::model::{Script, ScriptedModel, Tool, Turn};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A model and its client.
struct Asker {
    model: ScriptedModel,
    http: reqwest::Client,
}

impl Asker {
    async fn start(script: Script) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().unwrap();
        Self { model: ScriptedModel::start(script).await, http }
    }

    fn request(&self, path: &str) -> reqwest::RequestBuilder {
        self.http.post(format!("{}{path}", self.model.url()))
    }

    /// Returns status and body of the answer.
    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        read(self.request(path).json(body)).await
    }

    /// Returns the data of every event of the answer.
    async fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        let response = self.request(path).json(body).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        SseStream::new(response).to_end().await
    }
}

async fn read(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let (status, text) = (response.status().as_u16(), response.text().await.unwrap());
    (status, serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {status} {text}")))
}

/// A script with a text and a tool call, followed by a final text.
fn errand() -> Script {
    let buy = json!({ "action": "add", "text": "milk, bread and a very long shopping list" });
    let turn = Turn::text("I write it down.").and_call(Tool::ending("todo"), buy).usage(1_200, 34);
    Script::new().turn(turn).turn(Turn::text("All done, nothing left to do."))
}

/// The types of events; consecutive duplicates are merged.
fn types(events: &[Value]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    types.dedup();
    types
}

/// The given member of all events of this type, joined.
fn joined(events: &[Value], kind: &str, pointer: &str) -> String {
    let pieces = events.iter().filter(|event| event["type"] == kind);
    pieces.filter_map(|event| event.pointer(pointer)?.as_str()).collect()
}
