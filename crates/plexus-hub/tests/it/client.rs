//! A client with one token.

use plexus_testkit::TestHub;
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;

pub(crate) struct Client<'h> {
    hub: &'h TestHub,
    token: String,
}

/// An answer, read completely.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Null if there is none.
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn ok(self) -> Value {
        assert!(self.status.is_success(), "{self:?}");
        self.body
    }

    /// The code of an error with this status. The error must use the common envelope.
    pub(crate) fn refused(&self, status: u16) -> &str {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/json");
        assert_eq!(self.body["request_id"], self.header("x-request-id"), "{self:?}");
        assert!(self.body["message"].as_str().is_some_and(|message| !message.is_empty()), "{self:?}");
        self.body["code"].as_str().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name}: {self:?}")).to_str().unwrap()
    }
}

impl<'h> Client<'h> {
    pub(crate) fn admin(hub: &'h TestHub) -> Self {
        Self { hub, token: hub.admin_token() }
    }

    pub(crate) async fn agent(hub: &'h TestHub, name: &str, scopes: &[&str]) -> Self {
        Self { hub, token: hub.token(name, scopes).await.token }
    }

    pub(crate) fn with_token(hub: &'h TestHub, token: String) -> Self {
        Self { hub, token }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = self.hub.url(&format!("/api/v1{path}"));
        self.hub.http().request(method, url).bearer_auth(&self.token)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        send(self.request(Method::POST, path).json(body)).await
    }
}

pub(crate) async fn send(request: RequestBuilder) -> Answer {
    let response = request.send().await.expect("an answer");
    let (status, headers) = (response.status(), response.headers().clone());
    let bytes = response.bytes().await.expect("a body");
    let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).expect("JSON") };
    Answer { status, headers, body }
}
