//! An agent that produces events by calling tools: two events per call.

use plexus_proto::api::{CallToolResponse, CreatedToken};
use plexus_proto::{Event, SessionId};
use plexus_testkit::TestHub;
use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(crate) struct Agent {
    http: reqwest::Client,
    url: String,
    pub(crate) token: CreatedToken,
}

impl Agent {
    pub(crate) async fn new(hub: &TestHub, name: &str) -> Self {
        let token = hub.token(name, &["call:*"]).await;
        Self { http: hub.http().clone(), url: hub.url(""), token }
    }

    /// Makes a short call in the session with this name.
    pub(crate) async fn call(&self, session: &str) -> SessionId {
        self.send(session, "todo", json!({ "action": "list" })).await
    }

    /// Makes a call whose events have about this many bytes each.
    pub(crate) async fn write(&self, session: &str, bytes: usize) -> SessionId {
        let arguments = json!({ "action": "write", "section": "log", "content": "x".repeat(bytes) });
        self.send(session, "scratchpad", arguments).await
    }

    async fn send(&self, session: &str, tool: &str, arguments: Value) -> SessionId {
        let request = self
            .http
            .post(format!("{}/api/v1/tools/{tool}/call", self.url))
            .bearer_auth(&self.token.token)
            .header("plexus-session", session)
            .json(&json!({ "arguments": arguments }));
        let response = request.send().await.unwrap();
        let (status, body) = (response.status(), response.text().await.unwrap());
        assert_eq!(status, 200, "{body}");
        let answer: CallToolResponse = serde_json::from_str(&body).unwrap();
        assert!(answer.success, "{body}");
        answer.session_id
    }
}

pub(crate) fn seqs(events: &[Event]) -> Vec<i64> {
    events.iter().map(|event| event.seq).collect()
}

pub(crate) fn positions(events: &[Event]) -> Vec<i64> {
    events.iter().map(|event| event.pos).collect()
}
