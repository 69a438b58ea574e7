//! HTTP client of a node for the hub, to join it and to renew the credential.
//!
//! It does not follow redirects, which could send the credential to another server, and limits the size of answers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Method, StatusCode};
use plexus_proto::api::{JoinNodeParams, NodeCredential};
use plexus_proto::{ErrorCode, ErrorEnvelope, NodeId};
use reqwest::redirect::Policy;
use rustls::ClientConfig;
use serde::de::DeserializeOwned;
use url::{Host, Url};

use crate::link::poll::PollEndpoint;
use crate::link::tls::TlsOptions;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of an answer.
const MAX_ANSWER: usize = 64 << 10;

/// Why a request to the hub failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HubError {
    /// The address is not a valid hub address.
    #[error("{0}")]
    Address(String),
    #[error("cannot reach the hub at {hub}: {why}")]
    Unreachable { hub: String, why: String },
    /// The hub has answered with an error.
    #[error("{message}")]
    Refused { code: ErrorCode, message: String, hint: Option<String> },
    #[error("{hub} does not answer like a hub: {why}")]
    UnexpectedAnswer { hub: String, why: String },
}

impl HubError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::UnexpectedAnswer { .. } => true,
            Self::Refused { code, .. } => code.is_retryable(),
            Self::Address(_) => false,
        }
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub struct HubClient {
    url: Url,
    http: reqwest::Client,
    tls: Arc<ClientConfig>,
    files: TlsOptions,
}

impl fmt::Debug for HubClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubClient").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

impl HubClient {
    /// The hub at an address such as `https://hub.example`.
    ///
    /// # Errors
    /// If the address is not valid, or a file of `tls` cannot be used.
    pub fn new(address: &str, tls: &TlsOptions) -> Result<Self, HubError> {
        let url = parse(address)?;
        let files = tls.clone();
        let tls = files.client().map_err(HubError::Address)?;
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(Policy::none())
            .tcp_nodelay(true)
            .tls_backend_preconfigured(ClientConfig::clone(&tls))
            .user_agent(concat!("plexus-node/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| HubError::Address(error.to_string()))?;
        Ok(Self { url, http, tls, files })
    }

    /// The address as users write it.
    #[must_use]
    pub fn address(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// Exchanges an invitation code, or the join key of the hub, for a credential.
    ///
    /// # Errors
    /// If the hub cannot be reached, or refuses the machine.
    pub async fn join(&self, params: &JoinNodeParams) -> Result<NodeCredential, HubError> {
        let request = self.request(Method::POST, &["nodes", "join"], None)?.json(params);
        self.send(request).await
    }

    /// Exchanges the presented credential for a new one.
    ///
    /// # Errors
    /// If the hub cannot be reached, or refuses the presented credential.
    pub(crate) async fn renew(
        &self,
        node: NodeId,
        authorization: Option<&HeaderValue>,
    ) -> Result<NodeCredential, HubError> {
        let path = ["nodes", &node.to_string(), "credential"];
        self.send(self.request(Method::POST, &path, authorization)?).await
    }

    /// URL of the node's WebSocket.
    pub(crate) fn websocket_url(&self, node: NodeId) -> Result<Url, HubError> {
        let mut url = self.url_of(&["ws", "nodes", &node.to_string()])?;
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        url.set_scheme(scheme).map_err(|()| self.unexpected("its address is not an HTTP URL"))?;
        Ok(url)
    }

    /// The endpoint for exchanging frames by HTTP requests.
    pub(crate) fn poll_endpoint(
        &self,
        node: NodeId,
        authorization: Option<HeaderValue>,
    ) -> Result<PollEndpoint, HubError> {
        let url = self.url_of(&["api", "v1", "nodes", &node.to_string(), "frames"])?;
        Ok(PollEndpoint { http: self.http.clone(), url, authorization })
    }

    /// The TLS files it was created with.
    pub(crate) fn files(&self) -> &TlsOptions {
        &self.files
    }

    pub(crate) fn tls(&self) -> &Arc<ClientConfig> {
        &self.tls
    }

    fn url_of(&self, path: &[&str]) -> Result<Url, HubError> {
        let mut url = self.url.clone();
        url.path_segments_mut()
            .map_err(|()| HubError::Address(format!("{} is not a hub address", self.url)))?
            .pop_if_empty()
            .extend(path);
        Ok(url)
    }

    fn request(
        &self,
        method: Method,
        path: &[&str],
        authorization: Option<&HeaderValue>,
    ) -> Result<reqwest::RequestBuilder, HubError> {
        let url = self.url_of(&[&["api", "v1"], path].concat())?;
        let request = self.http.request(method, url).timeout(REQUEST_TIMEOUT);
        Ok(match authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization.clone()),
            None => request,
        })
    }

    async fn send<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, HubError> {
        let unreachable = |error: reqwest::Error| HubError::Unreachable {
            hub: self.address().to_owned(),
            why: causes(&error.without_url()),
        };
        let mut answer = request.send().await.map_err(unreachable)?;
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(self.unexpected("its answer is too long"));
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| self.unexpected(&error.to_string()));
        }
        match serde_json::from_slice::<ErrorEnvelope>(&body) {
            Ok(ErrorEnvelope { code, message, hint, .. }) => Err(HubError::Refused { code, message, hint }),
            Err(_) if status == StatusCode::TOO_MANY_REQUESTS => Err(HubError::Refused {
                code: ErrorCode::Overloaded,
                message: "too many requests".to_owned(),
                hint: None,
            }),
            Err(_) => Err(self.unexpected(&format!("the answer was {status}"))),
        }
    }

    fn unexpected(&self, why: &str) -> HubError {
        HubError::UnexpectedAnswer { hub: self.address().to_owned(), why: why.to_owned() }
    }
}

fn parse(address: &str) -> Result<Url, HubError> {
    let wrong = |why: &str| {
        HubError::Address(format!(
            "{address:?} is not the address of a hub, such as https://hub.example: {why}"
        ))
    };
    let mut url = Url::parse(address).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("it must start with https:// or http://"));
    }
    if url.host().is_none() {
        return Err(wrong("the host is missing"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(HubError::Address(
            "the address of a hub must not contain a user name or password".to_owned(),
        ));
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The error message with its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    text
}
