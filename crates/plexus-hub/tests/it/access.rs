//! Authorization: every route and every MCP method against every kind of token, in one table.
//!
//! A row states the requirement of its request. The columns are derived from it: tokens that are missing, invalid,
//! expired, revoked or for another hub; a token with every scope except the required one; and a token with only
//! that scope.

mod mcp;
mod rest;
mod tokens;

use std::time::Duration;

use plexus_testkit::TestHub;
use reqwest::{Method, Response};
use serde_json::Value;

use tokens::{InvalidToken, Tokens};

/// Time limit for an answer, or for the head of a stream.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The requirement of a request, and the status of its answer to an authorized caller.
#[derive(Debug, Clone, Copy)]
enum Needs {
    /// No token; everyone gets the same answer.
    Nothing(u16),
    /// Any valid token, even without scopes.
    Token(u16),
    /// This scope; without it, the answer has the second status.
    Scope(&'static str, u16, u16),
    /// The credential of the node in the path.
    Node(u16),
    /// This scope; without it, the result is a JSON-RPC error.
    Tool(&'static str),
}

#[derive(Debug)]
struct Row {
    method: Method,
    path: String,
    body: Option<Value>,
    headers: Vec<(&'static str, String)>,
    needs: Needs,
}

impl Row {
    async fn send(&self, hub: &TestHub, token: Option<&str>) -> Response {
        let mut request = hub.http().request(self.method.clone(), hub.url(&self.path));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = &self.body {
            request = request.json(body);
        }
        let answer = tokio::time::timeout(TIMEOUT, request.send()).await;
        answer.unwrap_or_else(|_| panic!("no answer in time: {self:?}")).expect("an answer")
    }

    async fn check_forbidden(&self, hub: &TestHub, column: &str, token: &str, words: &str) {
        let answer = self.send(hub, Some(token)).await;
        assert_eq!(answer.status(), 403, "{column}: {self:?}");
        if self.method != Method::HEAD {
            let body: Value = answer.json().await.expect("JSON");
            assert!(body["message"].as_str().unwrap().contains(words), "{column}: {body} for {self:?}");
        }
    }

    /// Checks every column; those with side effects come last.
    async fn check(&self, hub: &TestHub, tokens: &Tokens<'_>) {
        for (column, sent) in tokens.bad() {
            let answer = self.send(hub, sent.token()).await;
            match self.needs {
                Needs::Nothing(status) => assert_eq!(answer.status(), status, "{column}: {self:?}"),
                _ => refused(self, column, &sent, answer).await,
            }
        }
        if !matches!(self.needs, Needs::Nothing(_) | Needs::Node(_)) {
            self.check_forbidden(hub, "a node's", tokens.node(), "valid for its link only").await;
        }
        match self.needs {
            Needs::Node(status) => {
                for (column, token) in
                    [("no scope", tokens.only(&[]).await), ("an admin's", hub.admin_token())]
                {
                    self.check_forbidden(hub, column, &token, "only a node with its own credential").await;
                }
                let other = tokens.other_node().await;
                self.check_forbidden(hub, "another node's", &other, "belongs to another node").await;
                let answer = self.send(hub, Some(tokens.node())).await;
                assert_eq!(answer.status(), status, "the node's own credential: {self:?}");
            }
            Needs::Nothing(status) | Needs::Token(status) => {
                let token = tokens.only(&[]).await;
                assert_eq!(self.send(hub, Some(&token)).await.status(), status, "no scope: {self:?}");
            }
            Needs::Scope(scope, lacking, status) => {
                let answer = self.send(hub, Some(&tokens.all_but(scope).await)).await;
                assert_eq!(answer.status(), lacking, "all scopes but {scope}: {self:?}");
                let body: Value = answer.json().await.expect("JSON");
                // A resource that may be known to exist is refused by naming the scope; any other is reported as
                // missing.
                assert_eq!(body["code"] == "forbidden", lacking == 403, "{body} for {self:?}");
                let named = body["message"].as_str().unwrap().contains(scope);
                assert_eq!(named, lacking == 403, "{body} for {self:?}");
                let answer = self.send(hub, Some(&tokens.only(&[scope]).await)).await;
                assert_eq!(answer.status(), status, "only {scope}: {self:?}");
            }
            Needs::Tool(scope) => {
                let answer = self.send(hub, Some(&tokens.all_but(scope).await)).await;
                let body: Value = answer.json().await.expect("JSON");
                assert_eq!(body["error"]["code"], -32602, "all scopes but {scope}: {self:?}");
                let answer = self.send(hub, Some(&tokens.only(&[scope]).await)).await;
                let body: Value = answer.json().await.expect("JSON");
                assert_eq!(body["result"]["isError"], false, "only {scope}: {body} for {self:?}");
            }
        }
    }
}

/// A request without a valid token gets the same error on every route.
async fn refused(row: &Row, column: &str, sent: &InvalidToken, answer: Response) {
    assert_eq!(answer.status(), 401, "{column}: {row:?}");
    let challenge = answer.headers()["www-authenticate"].to_str().unwrap().to_owned();
    let expected = if sent.token().is_some() { "Bearer error=\"invalid_token\"" } else { "Bearer" };
    assert_eq!(challenge, expected, "{column}: {row:?}");
    if row.method != Method::HEAD {
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!(body["code"], "unauthenticated", "{column}: {row:?}");
        assert_eq!(body["message"], sent.message(), "{column}: {row:?}");
    }
}
