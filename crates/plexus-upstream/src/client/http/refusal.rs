//! What an answer means that is not the one that was asked for.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::WWW_AUTHENTICATE;
use plexus_mcp::http_client::{HttpError, Media, Reply, shown};

use super::super::message::{Incoming, Messages, RequestId};
use super::super::stderr;
use super::line::Line;
use crate::client::ClientError;
use crate::oauth::Challenge;

/// Of a refusal's body, enough for an error of JSON-RPC and its data.
const MAX_BODY: usize = 64 * 1024;

/// Codes of errors that the transports of the SDKs give.
const TRANSPORT_CODES: [i64; 3] = [-32000, -32001, -32600];
/// What they say of a session that they do not know.
const NO_SESSION: [&str; 4] = ["session not found", "no valid session", "unknown session", "invalid session"];

/// Why a request has no result.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The session is not known there any more: the request was not carried out.
    NoSession(ClientError),
    /// Answered with a status that is no success.
    Status(StatusCode, ClientError),
    Failed(ClientError),
}

impl Refusal {
    pub(crate) fn into_error(self) -> ClientError {
        match self {
            Self::NoSession(error) | Self::Status(_, error) | Self::Failed(error) => error,
        }
    }
}

impl From<ClientError> for Refusal {
    fn from(error: ClientError) -> Self {
        Self::Failed(error)
    }
}

impl From<HttpError> for Refusal {
    fn from(error: HttpError) -> Self {
        Self::Failed(error.into())
    }
}

/// Reads an answer that is no success.
pub(crate) async fn read(line: &Line, mut reply: Reply, method: &str, has_session: bool) -> Refusal {
    let status = reply.status();
    let place = shown(&reply.place().url);
    let wants = reply.all(&WWW_AUTHENTICATE);
    let given = reply.was_given("authorization");
    let account = line.account(&reply).cloned();
    let is_json = reply.media() == Media::Json;
    let body = beginning(&mut reply).await;
    let (id, rpc) = if is_json { rpc_error(&body) } else { None }.unzip();
    if has_session && (status == StatusCode::NOT_FOUND || says_no_session(status, id, rpc.as_ref())) {
        let message = format!("{place} does not know the session any more");
        return Refusal::NoSession(rpc.unwrap_or(ClientError::Protocol(message)));
    }
    let said = stderr::shown(&body);
    // A page for a browser says nothing to a person here.
    let said = if said.is_empty() || said.starts_with('<') { String::new() } else { format!(": {said}") };
    let challenge = Challenge::of(&wants);
    if let Some(refused) = account.and_then(|account| account.explain(&place, status, &challenge)) {
        return Refusal::Status(status, refused);
    }
    let error = match (status, rpc) {
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
            ClientError::Protocol(credentials(&place, status, given, Some(&wants)))
        }
        (_, Some(rpc)) => rpc,
        // What stands before a server says so also of a call that it has passed on, when it lost the server with it.
        (StatusCode::SERVICE_UNAVAILABLE, None) if method == "tools/call" => {
            ClientError::Lost(format!("{place} was not available while the call was there ({status}){said}"))
        }
        (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, None) => {
            ClientError::Busy(format!("{place} takes no requests now ({status}){said}"))
        }
        (StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT, None) => {
            ClientError::Lost(format!("what is behind {place} did not answer ({status}){said}"))
        }
        (StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED, None) => {
            let advice = "check the `url` in the server's file";
            ClientError::Protocol(format!(
                "{place} has no MCP endpoint at this address ({status}); {advice}{said}"
            ))
        }
        (_, None) => ClientError::Protocol(format!("{place} answers {status} to {method}{said}")),
    };
    Refusal::Status(status, error)
}

/// As much of a body as is looked at. A connection is used again only if that was all of it.
async fn beginning(reply: &mut Reply) -> Bytes {
    let mut body = BytesMut::new();
    while let Ok(Some(piece)) = reply.piece().await {
        body.extend_from_slice(&piece[..piece.len().min(MAX_BODY - body.len())]);
        if body.len() == MAX_BODY {
            break;
        }
    }
    body.freeze()
}

/// With the id of the request that it is about, if it names one of ours.
fn rpc_error(body: &[u8]) -> Option<(Option<RequestId>, ClientError)> {
    match Incoming::all(body)? {
        Messages::One(Incoming::Response { id, outcome: Err(error @ ClientError::Rpc { .. }) }) => {
            Some((id, error))
        }
        _ => None,
    }
}

/// Servers that do not say 404 for a session that is gone say it in words. A tool may speak of sessions too, and it has been
/// carried out: so these are words of the transport only where they are about no request, or have a code of its own.
fn says_no_session(status: StatusCode, id: Option<Option<RequestId>>, rpc: Option<&ClientError>) -> bool {
    let Some(ClientError::Rpc { code, message, .. }) = rpc else { return false };
    let of_transport = id == Some(None) || TRANSPORT_CODES.contains(code);
    let message = message.to_ascii_lowercase();
    status == StatusCode::BAD_REQUEST
        && of_transport
        && NO_SESSION.iter().any(|words| message.contains(words))
}

/// Names the header that is missing or wrong.
fn credentials(place: &str, status: StatusCode, given: bool, wants: Option<&str>) -> String {
    let scheme = wants.and_then(|wants| wants.split([' ', ',']).next()).unwrap_or("Bearer");
    let scheme: String = scheme.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
    match (status, given) {
        (StatusCode::UNAUTHORIZED, false) => format!(
            "{place} wants credentials ({status}): set the header `Authorization` in the server's file, such as \
             \"{scheme} ${{env:NAME}}\", or the header that the server's documentation names"
        ),
        (StatusCode::UNAUTHORIZED, true) => format!(
            "{place} does not accept the header `Authorization` of the server's file ({status}): it may have expired"
        ),
        (_, false) => format!(
            "{place} does not allow this ({status}): set the header `Authorization`, or the one that the server's \
             documentation names, in the server's file"
        ),
        (_, true) => format!(
            "{place} does not allow this ({status}) with the header `Authorization` of the server's file: it needs \
             more rights"
        ),
    }
}
