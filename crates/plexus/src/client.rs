//! The client of the hub's REST API.
//!
//! The hub can be hostile or broken: responses are limited in size and time, redirects are not followed (they would
//! send the token elsewhere), and a hub on this machine is never reached through a proxy or a name service.

pub(crate) mod pinned;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use plexus_kit::ExposeSecret;
use plexus_proto::{ErrorCode, ErrorEnvelope};
use reqwest::header::{AUTHORIZATION, DATE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::failure::{Exit, Failure};
use crate::target::{Credential, Target};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(120);
/// Streams have no time limit; their reader detects a dead one.
const STREAM_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// A query parameter, which is omitted if it has no value.
pub(crate) type Param<'a> = (&'a str, Option<String>);

#[derive(Debug)]
pub(crate) struct Hub {
    http: reqwest::Client,
    url: Url,
    /// The URL without the final slash.
    display_url: String,
    /// Why no token is sent. None if one is sent.
    missing_token: Option<String>,
    /// Set if the token is from the environment.
    given: Option<HasAdminToken>,
}

/// Whether the admin token would be sent if the environment had no token.
#[derive(Debug, Clone, Copy)]
struct HasAdminToken(bool);

/// The unmodified JSON of a successful response.
#[derive(Debug)]
pub(crate) struct Answer(Box<RawValue>);

impl Answer {
    pub(crate) fn raw(&self) -> &RawValue {
        &self.0
    }

    pub(crate) fn decode<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        decode(&self.0)
    }
}

/// A response to [`Hub::probe`].
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) ok: bool,
    /// The `date` header: the hub's clock.
    pub(crate) date: Option<String>,
    pub(crate) body: String,
}

/// Deserializes JSON from the hub.
pub(crate) fn decode<T: DeserializeOwned>(raw: &RawValue) -> anyhow::Result<T> {
    serde_json::from_str(raw.get()).map_err(|e| {
        Failure::new(Exit::Failed, format!("the hub's response is not what this version expects: {e}"))
            .hint("compare `plexus --version` with the hub's version; --json prints the unmodified response")
            .into()
    })
}

impl Hub {
    pub(crate) fn new(target: Target) -> anyhow::Result<Self> {
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("plexus/", env!("CARGO_PKG_VERSION")));
        if target.is_local {
            let loopback =
                [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))];
            builder = builder.no_proxy().resolve_to_addrs("localhost", &loopback);
        }
        if target.url.scheme() == "http" {
            // TLS is not used, so the system's certificates are not needed.
            builder = builder.tls_certs_only([]);
        } else if let Some(certificate) = &target.certificate {
            builder = builder.tls_backend_preconfigured(pinned::tls_config(certificate)?);
        }
        let given = match target.credential {
            Credential::Given { has_admin_token, .. } => Some(HasAdminToken(has_admin_token)),
            Credential::Local(_) | Credential::Missing(_) => None,
        };
        let missing_token = match target.credential {
            Credential::Missing(reason) => Some(reason),
            Credential::Given { token, .. } | Credential::Local(token) => {
                let mut value =
                    HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())).map_err(|_| {
                        Failure::new(
                            Exit::Denied,
                            "the token contains characters that are not allowed in a token",
                        )
                    })?;
                value.set_sensitive(true);
                builder = builder.default_headers(HeaderMap::from_iter([(AUTHORIZATION, value)]));
                None
            }
        };
        let http = builder.build().context("cannot set up the HTTP client")?;
        let display_url = target.url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { http, url: target.url, display_url, missing_token, given })
    }

    pub(crate) fn url(&self) -> &str {
        &self.display_url
    }

    pub(crate) async fn get(&self, path: &[&str], query: &[Param<'_>]) -> anyhow::Result<Answer> {
        self.send(self.request(Method::GET, path)?.query(&present(query))).await
    }

    pub(crate) async fn delete(&self, path: &[&str]) -> anyhow::Result<Answer> {
        self.send(self.request(Method::DELETE, path)?).await
    }

    pub(crate) async fn patch<B: Serialize>(&self, path: &[&str], body: &B) -> anyhow::Result<Answer> {
        self.send(self.request(Method::PATCH, path)?.json(body)).await
    }

    pub(crate) async fn post<B: Serialize>(
        &self,
        path: &[&str],
        body: &B,
        headers: &[(&'static str, Option<&str>)],
    ) -> anyhow::Result<Answer> {
        self.post_with(path, &[], body, headers).await
    }

    /// Like [`Self::post`], with parameters in the URL.
    pub(crate) async fn post_with<B: Serialize>(
        &self,
        path: &[&str],
        query: &[Param<'_>],
        body: &B,
        headers: &[(&'static str, Option<&str>)],
    ) -> anyhow::Result<Answer> {
        let mut request = self.request(Method::POST, path)?.query(&present(query)).json(body);
        for (name, value) in headers {
            let Some(value) = value else { continue };
            let value = HeaderValue::from_str(value).map_err(|_| {
                Failure::new(
                    Exit::Usage,
                    format!("{name} {value:?} must be plain ASCII without control characters"),
                )
            })?;
            request = request.header(HeaderName::from_static(name), value);
        }
        self.send(request).await
    }

    /// Starts a streaming response, which the caller reads in chunks.
    pub(crate) async fn stream(&self, path: &[&str], query: &[Param<'_>]) -> anyhow::Result<Response> {
        let request = self.request(Method::GET, path)?.query(&present(query)).timeout(STREAM_TIMEOUT);
        self.send_checked(request).await
    }

    /// Gets a path outside the API, which needs no authentication.
    pub(crate) async fn probe(&self, path: &str) -> anyhow::Result<Probe> {
        let mut url = self.url.clone();
        url.set_path(path);
        let request = self.http.get(url).timeout(CONNECT_TIMEOUT);
        let response = request.send().await.map_err(|e| self.unreachable(&e))?;
        let header = response.headers().get(DATE).and_then(|date| date.to_str().ok());
        let (ok, date) = (response.status().is_success(), header.map(str::to_owned));
        let body = String::from_utf8_lossy(&self.body(response).await?).into_owned();
        Ok(Probe { ok, date, body })
    }

    /// A request below `/api/v1`. Each part is one path segment, whatever characters it contains.
    fn request(&self, method: Method, path: &[&str]) -> anyhow::Result<RequestBuilder> {
        // These would address another resource, so they can only be a mistake of the caller.
        if let Some(part) = path.iter().find(|part| matches!(**part, "" | "." | "..")) {
            return Err(Failure::new(Exit::Usage, format!("{part:?} is not a name")).into());
        }
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        Ok(self.http.request(method, url))
    }

    async fn send(&self, request: RequestBuilder) -> anyhow::Result<Answer> {
        let body = self.body(self.send_checked(request).await?).await?;
        serde_json::from_slice(&body).map(Answer).map_err(|e| {
            Failure::new(Exit::Failed, format!("the response of {} is not JSON: {e}", self.display_url))
                .hint("is this the address of a Plexus hub?")
                .into()
        })
    }

    /// Sends the request and turns an error status into an error. The body is not read yet.
    async fn send_checked(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        let response = request.send().await.map_err(|e| self.unreachable(&e))?;
        let status = response.status();
        let request_id =
            response.headers().get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        if status.is_redirection() {
            let to =
                response.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or("elsewhere");
            let message = format!("{} redirects to {to}; redirects are not followed", self.display_url);
            return Err(Failure::new(Exit::Failed, message).hint("give the hub's own URL with --hub").into());
        }
        if !status.is_success() {
            let body = self.body(response).await?;
            return Err(self.refused(status, &body, request_id).into());
        }
        Ok(response)
    }

    async fn body(&self, mut response: Response) -> anyhow::Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.unreachable(&e))? {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                let message = format!(
                    "the response of {} is larger than {} MiB",
                    self.display_url,
                    MAX_RESPONSE_BYTES >> 20
                );
                return Err(Failure::new(Exit::Failed, message).hint("request less data at once").into());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// The error for a response that did not arrive, or only in part.
    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut failure = if error.is_timeout() && !error.is_connect() {
            let message =
                format!("the hub at {} did not respond within {} s", self.display_url, TIMEOUT.as_secs());
            Failure::new(Exit::Unreachable, message).hint("see how it is doing with `plexus status`")
        } else if error.is_body() || error.is_decode() {
            // The details of HTTP would not help the user.
            let message = format!("the connection to the hub at {} broke", self.display_url);
            Failure::new(Exit::Unreachable, message).hint("see how it is doing with `plexus status`")
        } else {
            let message = format!("cannot reach the hub at {}: {}", self.display_url, root_cause(error));
            Failure::new(Exit::Unreachable, message)
                .hint("start it with `plexus up`, or name a running one with --hub or PLEXUS_HUB")
        };
        failure.retryable = true;
        failure.after_sending = !error.is_connect();
        failure
    }

    /// The error for an error status.
    fn refused(&self, status: StatusCode, body: &[u8], request_id: Option<String>) -> Failure {
        let exit = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Exit::Denied,
            _ => Exit::Failed,
        };
        let Ok(envelope) = serde_json::from_slice::<ErrorEnvelope>(body) else {
            let mut failure = Failure::new(exit, format!("{} responded with {status}", self.display_url))
                .hint("is this the address of a Plexus hub of the same version?");
            failure.request_id = request_id;
            failure.retryable = status == StatusCode::SERVICE_UNAVAILABLE;
            return failure;
        };
        let denied = matches!(envelope.code, ErrorCode::Unauthenticated | ErrorCode::Forbidden);
        let mut failure = Failure::new(if denied { Exit::Denied } else { exit }, envelope.message);
        failure.hint = if denied { Some(self.denied_hint(envelope.hint)) } else { envelope.hint };
        failure.code = Some(envelope.code);
        if envelope.details["missing"] == serde_json::json!(["command"]) {
            failure.command = envelope.details["command"].as_str().map(str::to_owned);
        }
        failure.retryable = envelope.code.is_retryable();
        if envelope.code == ErrorCode::Internal || status.is_server_error() {
            failure.request_id = Some(envelope.request_id);
        }
        if let (ErrorCode::Unauthenticated, Some(reason)) = (envelope.code, &self.missing_token) {
            failure.message = format!("no token for the hub at {}: {reason}", self.display_url);
            failure.hint = Some("name the hub's data folder with --data-dir, or set PLEXUS_TOKEN".to_owned());
        }
        failure
    }

    /// The hint for a denied request: that of the hub, and which token was sent.
    fn denied_hint(&self, hint: Option<String>) -> String {
        let hint = hint.unwrap_or_else(|| {
            "use a token that may do this: set PLEXUS_TOKEN, or see `plexus token create --help`".to_owned()
        });
        let Some(HasAdminToken(has_admin_token)) = self.given else { return hint };
        let unset = match has_admin_token {
            true => "; unset it to use the admin token of this machine's hub",
            false => "",
        };
        format!("{}; the request was sent with the token in PLEXUS_TOKEN{unset}", hint.trim_end_matches('.'))
    }
}

/// The parameters that have a value.
fn present<'a>(query: &[Param<'a>]) -> Vec<(&'a str, String)> {
    query.iter().filter_map(|(name, value)| Some((*name, value.clone()?))).collect()
}

/// The innermost error. The layers above it say where it happened, not why.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
