//! The hub, as a node asks it over HTTP: to be let in, and for a new credential.
//!
//! Redirects are not followed, since they would carry the credential elsewhere, and answers are bounded.

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

use crate::link::poll::Exchange;
use crate::link::tls::TlsOptions;

const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(30);
/// Longest answer that is no frame.
const MAX_ANSWER: usize = 64 << 10;

/// Why the hub did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HubError {
    /// Not a place where a hub can be.
    #[error("{0}")]
    Address(String),
    #[error("the hub at {hub} cannot be reached: {why}")]
    Unreachable { hub: String, why: String },
    /// It was reached, and says no.
    #[error("{message}")]
    Refused { code: ErrorCode, message: String, hint: Option<String> },
    #[error("{hub} does not answer as a hub does: {why}")]
    Strange { hub: String, why: String },
}

impl HubError {
    /// Whether the same may be granted later without a change.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Strange { .. } => true,
            Self::Refused { code, .. } => code.is_retryable(),
            Self::Address(_) => false,
        }
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Hub {
    url: Url,
    http: reqwest::Client,
    tls: Arc<ClientConfig>,
    files: TlsOptions,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

impl Hub {
    /// The hub at an address such as `https://hub.example`.
    ///
    /// # Errors
    /// When that is no address, or a file of `tls` cannot be used.
    pub fn new(address: &str, tls: &TlsOptions) -> Result<Self, HubError> {
        let url = parse(address)?;
        let files = tls.clone();
        let tls = files.client().map_err(HubError::Address)?;
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .redirect(Policy::none())
            .tcp_nodelay(true)
            .tls_backend_preconfigured(ClientConfig::clone(&tls))
            .user_agent(concat!("plexus-node/", env!("CARGO_PKG_VERSION")));
        if is_here(&url) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| HubError::Address(error.to_string()))?;
        Ok(Self { url, http, tls, files })
    }

    /// As people write it.
    #[must_use]
    pub fn address(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// Trades a code, or the key that all machines of the hub share, for a credential.
    ///
    /// # Errors
    /// When the hub cannot be reached, or does not let the machine in.
    pub async fn join(&self, params: &JoinNodeParams) -> Result<NodeCredential, HubError> {
        let request = self.request(Method::POST, &["nodes", "join"], None)?.json(params);
        self.ask(request).await
    }

    /// A credential in place of the one that is presented.
    ///
    /// # Errors
    /// When the hub cannot be reached, or does not take the old one.
    pub(crate) async fn renew(
        &self,
        node: NodeId,
        authorization: Option<&HeaderValue>,
    ) -> Result<NodeCredential, HubError> {
        let path = ["nodes", &node.to_string(), "credential"];
        self.ask(self.request(Method::POST, &path, authorization)?).await
    }

    /// Where the WebSocket of a node is.
    pub(crate) fn socket(&self, node: NodeId) -> Result<Url, HubError> {
        let mut url = self.at(&["ws", "nodes", &node.to_string()])?;
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        url.set_scheme(scheme).map_err(|()| self.strange("its address has a scheme that is no HTTP"))?;
        Ok(url)
    }

    /// Where its frames are exchanged by requests.
    pub(crate) fn exchange(
        &self,
        node: NodeId,
        authorization: Option<HeaderValue>,
    ) -> Result<Exchange, HubError> {
        let url = self.at(&["api", "v1", "nodes", &node.to_string(), "frames"])?;
        Ok(Exchange { http: self.http.clone(), url, authorization })
    }

    /// The files that it was made with.
    pub(crate) fn files(&self) -> &TlsOptions {
        &self.files
    }

    pub(crate) fn tls(&self) -> &Arc<ClientConfig> {
        &self.tls
    }

    fn at(&self, path: &[&str]) -> Result<Url, HubError> {
        let mut url = self.url.clone();
        url.path_segments_mut()
            .map_err(|()| HubError::Address(format!("{} cannot be a hub", self.url)))?
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
        let url = self.at(&[&["api", "v1"], path].concat())?;
        let request = self.http.request(method, url).timeout(ANSWER);
        Ok(match authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization.clone()),
            None => request,
        })
    }

    async fn ask<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, HubError> {
        let unreachable = |error: reqwest::Error| HubError::Unreachable {
            hub: self.address().to_owned(),
            why: causes(&error.without_url()),
        };
        let mut answer = request.send().await.map_err(unreachable)?;
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(self.strange("its answer is too long"));
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| self.strange(&error.to_string()));
        }
        match serde_json::from_slice::<ErrorEnvelope>(&body) {
            Ok(ErrorEnvelope { code, message, hint, .. }) => Err(HubError::Refused { code, message, hint }),
            Err(_) if status == StatusCode::TOO_MANY_REQUESTS => Err(HubError::Refused {
                code: ErrorCode::Overloaded,
                message: "too many requests".to_owned(),
                hint: None,
            }),
            Err(_) => Err(self.strange(&format!("the answer was {status}"))),
        }
    }

    fn strange(&self, why: &str) -> HubError {
        HubError::Strange { hub: self.address().to_owned(), why: why.to_owned() }
    }
}

fn parse(address: &str) -> Result<Url, HubError> {
    let wrong = |why: &str| {
        HubError::Address(format!("{address:?} is no address of a hub, such as https://hub.example: {why}"))
    };
    let mut url = Url::parse(address).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("it has to begin with https:// or http://"));
    }
    if url.host().is_none() {
        return Err(wrong("it names no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(HubError::Address("the address of a hub holds no name and no password".to_owned()));
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// An error with all that led to it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
