//! The proxy's HTTP endpoint on a loopback port, for one agent that knows its secret.
//!
//! Every process on this machine, and every page in a browser, can reach the port. A request is therefore accepted
//! only with the secret, with a loopback `Host`, and not from a page of another site.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use plexus_kit::{ExposeSecret, Secret, Stage, in_place};
use plexus_mcp::relay::rpc::{self, INVALID_REQUEST, Message, RpcError};
use plexus_mcp::relay::{HubMessage, headers, sse};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Interval;

use super::client::{CREDENTIAL_REFUSED_CODE, MessageMeta, ProxyClient};
use super::messages::Answer;
use super::notifications::NotificationStream;
use super::response_stream::ResponseStream;
use super::{Proxy, ProxyError, Shared};

const PATH: &str = "/mcp";
/// Concurrent connections; further ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 128;
/// Time limit for the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of sessions; the least recently used one is removed.
const MAX_SESSIONS: usize = 256;
/// Maximum size of a message.
pub(super) const MAX_BODY: usize = 16 << 20;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The address at which an agent reaches the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub url: String,
    pub address: SocketAddr,
}

struct HttpServer {
    proxy: Arc<Shared>,
    /// Hash of the secret, compared in constant time.
    secret_hash: [u8; 32],
    sessions: Mutex<HashMap<String, (Arc<ProxyClient>, u64)>>,
    /// Serves clients without a session.
    stateless: Arc<ProxyClient>,
}

impl Proxy {
    /// Listens on a loopback address for requests with this secret as bearer token.
    ///
    /// # Errors
    /// If the address is not a loopback address or is in use, or the secret is too short.
    pub async fn listen(&self, address: SocketAddr, secret: &Secret) -> Result<Endpoint, ProxyError> {
        if !address.ip().is_loopback() {
            return Err(ProxyError::Address(format!(
                "{address} is reachable from other machines; the proxy serves this machine only: use 127.0.0.1:{}",
                address.port()
            )));
        }
        if secret.expose_secret().len() < 16 {
            return Err(ProxyError::Address(
                "the secret is too short; use at least 16 characters".to_owned(),
            ));
        }
        let failed = |source| ProxyError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let server = Arc::new(HttpServer {
            proxy: self.0.clone(),
            secret_hash: hashed(secret.expose_secret().as_bytes()),
            sessions: Mutex::default(),
            stateless: ProxyClient::new(self.0.clone()),
        });
        let supervisor = self.0.supervisor.clone();
        let stop = supervisor.stopping(Stage::Intake);
        self.0.supervisor.spawn(Stage::Intake, "loopback endpoint", async move {
            let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
            loop {
                let Ok(permit) = connections.clone().acquire_owned().await else { return };
                let accepted = tokio::select! {
                    () = stop.cancelled() => return,
                    accepted = listener.accept() => accepted,
                };
                match accepted {
                    Ok((stream, _)) => {
                        let (server, stop) = (server.clone(), stop.clone());
                        supervisor.spawn(Stage::Intake, "client of the proxy", async move {
                            let _permit = permit;
                            tokio::select! {
                                () = in_place(serve(stream, server)) => {}
                                () = stop.cancelled() => {}
                            }
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        });
        Ok(Endpoint { url: format!("http://{address}{PATH}"), address })
    }
}

async fn serve(stream: TcpStream, server: Arc<HttpServer>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a client's connection ended early");
    }
}

fn hashed(text: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, text).as_ref());
    hash
}

impl HttpServer {
    fn keep_alive(&self) -> Duration {
        self.proxy.options.timing.keep_alive
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, (Arc<ProxyClient>, u64)>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if request.uri().path().trim_end_matches('/') != PATH {
            return refused(StatusCode::NOT_FOUND, INVALID_REQUEST, "there is nothing at this path");
        }
        if !is_local_request(request.headers(), request.uri()) {
            return refused(
                StatusCode::FORBIDDEN,
                CREDENTIAL_REFUSED_CODE,
                "this Host or Origin is not allowed to use the proxy",
            );
        }
        if !self.has_secret(request.headers()) {
            return refused(
                StatusCode::UNAUTHORIZED,
                CREDENTIAL_REFUSED_CODE,
                "the secret of this proxy is missing or wrong",
            );
        }
        match *request.method() {
            Method::POST => self.post(request).await,
            Method::GET => self.get(request.headers()),
            Method::DELETE => self.delete(request.headers()),
            _ => {
                let mut response = refused(
                    StatusCode::METHOD_NOT_ALLOWED,
                    INVALID_REQUEST,
                    "the proxy supports POST, GET and DELETE",
                );
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("DELETE,GET,POST"));
                response
            }
        }
    }

    fn has_secret(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let bearer = values.next().and_then(|value| value.as_bytes().split_at_checked(7));
        let Some((scheme, secret)) = bearer.filter(|_| values.next().is_none()) else { return false };
        scheme.eq_ignore_ascii_case(b"bearer ")
            && verify_slices_are_equal(&hashed(secret), &self.secret_hash).is_ok()
    }

    async fn post(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, MAX_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => {
                return refused(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    INVALID_REQUEST,
                    &format!("cannot read the body: {error}"),
                );
            }
        };
        let meta = MessageMeta {
            headers: Some(head.headers.clone()),
            version: text(&head.headers, headers::PROTOCOL_VERSION.as_str()),
            conversation: text(&head.headers, headers::CONVERSATION.as_str()).filter(|name| !name.is_empty()),
        };
        let (client, opened) = match self.client_of(&head.headers, &body, &meta) {
            Ok(found) => found,
            Err(error) => return respond(Answer::error(&error), self.keep_alive()),
        };
        let mut response = respond(client.handle(&body, &meta).await, self.keep_alive());
        if let Some(id) = opened.and_then(|id| HeaderValue::from_str(&id).ok()) {
            response.headers_mut().insert(headers::SESSION_ID, id);
        }
        response
    }

    /// The client of a message, and the id of its session if it opens one.
    fn client_of(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        meta: &MessageMeta,
    ) -> Result<(Arc<ProxyClient>, Option<String>), RpcError> {
        if let Some(id) = text(headers, headers::SESSION_ID.as_str()) {
            return match self.session(&id) {
                Some(client) => Ok((client, None)),
                None => Err(RpcError::new(
                    StatusCode::NOT_FOUND,
                    INVALID_REQUEST,
                    "there is no such session; start with initialize",
                )),
            };
        }
        let Ok(message) = rpc::parse(body) else { return Ok((self.stateless.clone(), None)) };
        let begins = matches!(&message, Message::Request(request) if request.method == "initialize");
        if begins && !plexus_mcp::relay::is_modern(&message, meta.version.as_deref()) {
            let (id, client) = (uuid::Uuid::new_v4().to_string(), ProxyClient::new(self.proxy.clone()));
            self.insert_session(id.clone(), client.clone());
            return Ok((client, Some(id)));
        }
        Ok((self.stateless.clone(), None))
    }

    fn session(&self, id: &str) -> Option<Arc<ProxyClient>> {
        let mut sessions = self.sessions();
        let newest = sessions.values().map(|(_, used)| *used).max().unwrap_or_default();
        let (client, used) = sessions.get_mut(id)?;
        *used = newest + 1;
        Some(client.clone())
    }

    fn insert_session(&self, id: String, client: Arc<ProxyClient>) {
        let mut sessions = self.sessions();
        if sessions.len() >= MAX_SESSIONS
            && let Some(oldest) = sessions.iter().min_by_key(|(_, (_, used))| *used).map(|(id, _)| id.clone())
        {
            sessions.remove(&oldest);
        }
        let newest = sessions.values().map(|(_, used)| *used).max().unwrap_or_default();
        sessions.insert(id, (client, newest + 1));
    }

    fn get(&self, headers: &HeaderMap) -> Response<Body> {
        let client = match text(headers, headers::SESSION_ID.as_str()) {
            Some(id) => match self.session(&id) {
                Some(client) => client,
                None => return refused(StatusCode::NOT_FOUND, INVALID_REQUEST, "there is no such session"),
            },
            None => self.stateless.clone(),
        };
        let last = text(headers, headers::LAST_EVENT_ID.as_str());
        let listener = Box::new(NotificationStream::of_session(client, last));
        events(Some(b": connected\n\n"), notifications(listener), self.keep_alive())
    }

    fn delete(&self, headers: &HeaderMap) -> Response<Body> {
        let ended = text(headers, headers::SESSION_ID.as_str()).and_then(|id| self.sessions().remove(&id));
        if let Some((client, _)) = ended {
            self.proxy.supervisor.spawn(Stage::Work, "end of a session", async move { client.end().await });
        }
        empty(StatusCode::NO_CONTENT)
    }
}

/// Whether `Host` and `Origin` name this machine. Other names that resolve to it are refused, because of DNS
/// rebinding attacks.
fn is_local_request(headers: &HeaderMap, uri: &Uri) -> bool {
    let one = |name| {
        let mut values = headers.get_all(name).iter();
        let value = values.next().map(|value| value.to_str().unwrap_or("\0"));
        if values.next().is_some() { Some("\0") } else { value }
    };
    let host_ok = one(HOST).is_some_and(is_loopback)
        && uri.authority().is_none_or(|target| is_loopback(target.as_str()));
    let origin_ok = one(ORIGIN).is_none_or(|origin| {
        origin.parse::<Uri>().is_ok_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.authority().is_some_and(|authority| is_loopback(authority.as_str()))
        })
    });
    host_ok && origin_ok
}

/// `127.0.0.1:port`, `[::1]:port` or `localhost:port`.
fn is_loopback(authority: &str) -> bool {
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => authority,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(|text| text.trim().to_owned())
}

fn respond(answer: Answer, keep_alive: Duration) -> Response<Body> {
    match answer {
        Answer::Nothing => empty(StatusCode::ACCEPTED),
        Answer::One(status, json) => one(status, json),
        Answer::Stream(response) => events(None, answers(response), keep_alive),
        Answer::Notifications(listener) => events(None, notifications(listener), keep_alive),
    }
}

fn one(status: StatusCode, json: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(json).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed_unsync());
    *response.status_mut() = status;
    response
}

fn refused(status: StatusCode, code: i32, message: &str) -> Response<Body> {
    let mut error = RpcError::new(status, code, message);
    error.id = Some("null".to_owned());
    one(status, error.to_json().into())
}

type Messages = Pin<Box<dyn Stream<Item = HubMessage> + Send>>;

/// The messages of a streamed answer. A pending future is kept while other events are sent.
fn answers(response: Box<ResponseStream>) -> Messages {
    Box::pin(stream::unfold(response, |mut response| async { Some((response.next().await?, response)) }))
}

fn notifications(listener: Box<NotificationStream>) -> Messages {
    Box::pin(stream::unfold(listener, |mut listener| async { Some((listener.next().await?, listener)) }))
}

/// The next message as an event, or a keep-alive comment.
async fn next_event(messages: &mut Messages, ticks: &mut Interval) -> Option<Bytes> {
    tokio::select! {
        biased;
        message = messages.next() => message.map(|HubMessage { id, json }| sse::event(id.as_deref(), &String::from_utf8_lossy(&json))),
        _ = ticks.tick() => Some(sse::keep_alive()),
    }
}

fn events(first: Option<&'static [u8]>, messages: Messages, keep_alive: Duration) -> Response<Body> {
    let rest = stream::unfold((messages, sse::ticks(keep_alive)), |(mut messages, mut ticks)| async {
        Some((next_event(&mut messages, &mut ticks).await?, (messages, ticks)))
    });
    let first = stream::iter(first.map(Bytes::from_static));
    let frames = first.chain(rest).map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    response
}
