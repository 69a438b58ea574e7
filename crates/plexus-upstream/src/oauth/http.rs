//! OAuth requests to a server and to its authorization server.
//!
//! They use the same connections and rules as MCP requests: addresses are checked before connecting, and a
//! private address requires permission in the server's file. In addition every URL must be encrypted unless
//! it is on this machine. Headers of the file are sent to its own server only.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use plexus_mcp::http_client::{Endpoint, origin_of};
use serde_json::Value;
use url::Url;

use super::challenge::Challenge;
use super::terms::Terms;
use crate::client::{AuthorizedHttp, ClientError, ClientSettings};
use crate::config::is_protected;

/// Time limit for one request and its answer. Shorter than the time that a stopping hub waits for running
/// work.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);
/// Size limit of a document or an answer, in bytes.
const MAX_BODY: usize = 256 * 1024;
/// A harmless request; only its rejection matters.
const UNAUTHENTICATED_PING: &str = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;

pub(super) struct OauthHttp {
    http: Arc<AuthorizedHttp>,
}

/// An answer with its body, if that is a JSON object.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Option<Value>,
}

impl OauthHttp {
    pub(super) fn new(terms: &Terms, settings: &ClientSettings) -> Result<Self, ClientError> {
        let http = AuthorizedHttp::new(&terms.http, settings.allow_private, REQUEST_TIMEOUT, MAX_BODY)?;
        Ok(Self { http: Arc::new(http) })
    }

    /// Fetches a document; none if it does not exist.
    pub(super) async fn document(&self, url: &Url) -> Result<Option<Value>, ClientError> {
        let endpoint = endpoint(url)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let exchange = async {
            let reply = self.http.send(&endpoint, &Method::GET, &headers, &Bytes::new()).await?;
            let status = reply.status();
            if status.is_success() {
                return Ok(object(&reply.bytes().await?));
            }
            if status.is_server_error() {
                return Err(ClientError::Unreachable(format!("{} answers {status}", origin_of(url))));
            }
            Ok(None)
        };
        timely(url, exchange).await
    }

    /// Sends a form with an optional `Authorization` header. Redirects are not followed, because the form may
    /// contain credentials.
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

    /// Sends a JSON object.
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
        let endpoint = endpoint(url)?;
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let exchange = async {
            let reply = self.http.send_once(&endpoint, &Method::POST, &headers, &Bytes::from(body)).await?;
            let status = reply.status();
            Ok(Answer { status, body: object(&reply.bytes().await?) })
        };
        timely(url, exchange).await
    }

    /// The challenge with which the server rejects an unauthenticated request; empty if it does not reject
    /// it.
    pub(super) async fn challenge(&self) -> Result<Challenge, ClientError> {
        let home = self.http.home().clone();
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let exchange = async {
            let reply =
                self.http.send(&home, &Method::POST, &headers, &Bytes::from(UNAUTHENTICATED_PING)).await?;
            if reply.status() != StatusCode::UNAUTHORIZED {
                return Ok(Challenge::default());
            }
            Ok(Challenge::of(&reply.all(&WWW_AUTHENTICATE)))
        };
        timely(&home.url, exchange).await
    }
}

async fn timely<T>(
    url: &Url,
    request: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    tokio::time::timeout(REQUEST_TIMEOUT, request).await.unwrap_or_else(|_| {
        let (origin, patience) = (origin_of(url), REQUEST_TIMEOUT.as_secs());
        Err(ClientError::Unreachable(format!("{origin} did not answer within {patience} s")))
    })
}

fn endpoint(url: &Url) -> Result<Arc<Endpoint>, ClientError> {
    if !is_protected(url) {
        let origin = origin_of(url);
        return Err(ClientError::Protocol(format!(
            "{origin} is not encrypted, so the hub does not use it for OAuth"
        )));
    }
    Ok(Arc::new(Endpoint::foreign(url.clone())?))
}

fn object(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body).ok().filter(Value::is_object)
}
