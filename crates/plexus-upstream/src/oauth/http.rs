//! Requests to a server about access to it, and to its authorization server.
//!
//! They go over the same connections, by the same rules, as requests of MCP: addresses are checked before they are
//! connected to, and one that is not of the open internet needs the word of the server's file. Beyond that every address
//! is encrypted unless it is on this machine. Headers of the file go to its own server only.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use plexus_mcp::http_client::{Endpoint, shown};
use serde_json::Value;
use url::Url;

use super::challenge::Challenge;
use super::terms::Terms;
use crate::client::{ClientError, ClientSettings, Line};
use crate::config::is_protected;

/// For one request and its answer. Shorter than a hub that stops waits for what it has begun.
const PATIENCE: Duration = Duration::from_secs(8);
/// Bytes of a document or an answer.
const MAX_BODY: usize = 256 * 1024;
/// Asks for nothing: what matters is how it is refused.
const QUESTION: &str = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;

pub(super) struct OauthHttp {
    line: Arc<Line>,
}

/// An answer with its body, if that is an object of JSON.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Option<Value>,
}

impl OauthHttp {
    pub(super) fn new(terms: &Terms, settings: &ClientSettings) -> Result<Self, ClientError> {
        let line = Line::new(&terms.http, settings.allow_private, PATIENCE, MAX_BODY)?;
        Ok(Self { line: Arc::new(line) })
    }

    /// A document; none where there is none.
    pub(super) async fn document(&self, url: &Url) -> Result<Option<Value>, ClientError> {
        let place = place(url)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let asked = async {
            let reply = self.line.send(&place, &Method::GET, &headers, &Bytes::new()).await?;
            let status = reply.status();
            if status.is_success() {
                return Ok(object(&reply.whole().await?));
            }
            if status.is_server_error() {
                return Err(ClientError::Unreachable(format!("{} answers {status}", shown(url))));
            }
            Ok(None)
        };
        timely(url, asked).await
    }

    /// Sends a form, with the header that says who sends it. It is not sent elsewhere if it should be redirected: it
    /// may hold credentials.
    pub(super) async fn submit(
        &self,
        url: &Url,
        form: String,
        authorization: Option<HeaderValue>,
    ) -> Result<Answer, ClientError> {
        let mut headers = HeaderMap::new();
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization);
        }
        self.post(url, headers, "application/x-www-form-urlencoded", form).await
    }

    /// Sends an object of JSON.
    pub(super) async fn submit_json(&self, url: &Url, body: &Value) -> Result<Answer, ClientError> {
        self.post(url, HeaderMap::new(), "application/json", body.to_string()).await
    }

    async fn post(
        &self,
        url: &Url,
        mut headers: HeaderMap,
        kind: &'static str,
        body: String,
    ) -> Result<Answer, ClientError> {
        let place = place(url)?;
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let asked = async {
            let reply = self.line.send_there(&place, &Method::POST, &headers, &Bytes::from(body)).await?;
            let status = reply.status();
            Ok(Answer { status, body: object(&reply.whole().await?) })
        };
        timely(url, asked).await
    }

    /// How the server refuses who says nothing of itself; empty where it does not refuse, or cannot be asked.
    pub(super) async fn challenge(&self) -> Result<Challenge, ClientError> {
        let home = self.line.home().clone();
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let asked = async {
            let reply = self.line.send(&home, &Method::POST, &headers, &Bytes::from(QUESTION)).await?;
            if reply.status() != StatusCode::UNAUTHORIZED {
                return Ok(Challenge::default());
            }
            Ok(Challenge::of(&reply.all(&WWW_AUTHENTICATE)))
        };
        timely(&home.url, asked).await
    }
}

async fn timely<T>(url: &Url, asked: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| {
        let (place, patience) = (shown(url), PATIENCE.as_secs());
        Err(ClientError::Unreachable(format!("{place} did not answer within {patience} s")))
    })
}

fn place(url: &Url) -> Result<Arc<Endpoint>, ClientError> {
    if !is_protected(url) {
        let place = shown(url);
        return Err(ClientError::Protocol(format!("{place} is not encrypted, and is not asked for access")));
    }
    Ok(Arc::new(Endpoint::elsewhere(url.clone())?))
}

fn object(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body).ok().filter(Value::is_object)
}
