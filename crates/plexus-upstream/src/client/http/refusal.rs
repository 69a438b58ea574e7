//! The meaning of an unsuccessful HTTP answer.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::WWW_AUTHENTICATE;
use plexus_mcp::http_client::{HttpError, Media, Reply, origin_of};

use super::super::message::{Incoming, Messages, RequestId};
use super::super::stderr;
use super::authorized_http::AuthorizedHttp;
use crate::client::ClientError;
use crate::oauth::Challenge;

/// Size limit of the body that is read: enough for a JSON-RPC error with data.
const MAX_BODY: usize = 64 * 1024;

/// Error codes that the transports of the SDKs use.
const TRANSPORT_CODES: [i64; 3] = [-32000, -32001, -32600];
/// How these transports report an unknown session.
const NO_SESSION: [&str; 4] = ["session not found", "no valid session", "unknown session", "invalid session"];

/// Why a request has no result.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The server no longer knows the session; the request was not carried out.
    NoSession(ClientError),
    /// The answer has an error status.
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

/// Interprets an answer with an error status.
pub(crate) async fn read(
    http: &AuthorizedHttp,
    mut reply: Reply,
    method: &str,
    has_session: bool,
) -> Refusal {
    let status = reply.status();
    let origin = origin_of(&reply.endpoint().url);
    let wants = reply.all(&WWW_AUTHENTICATE);
    let given = reply.was_sent("authorization");
    let account = http.account(&reply).cloned();
    let is_json = reply.media() == Media::Json;
    let body = beginning(&mut reply).await;
    let (id, rpc) = if is_json { rpc_error(&body) } else { None }.unzip();
    if has_session && (status == StatusCode::NOT_FOUND || says_no_session(status, id, rpc.as_ref())) {
        let message = format!("{origin} no longer knows the session");
        return Refusal::NoSession(rpc.unwrap_or(ClientError::Protocol(message)));
    }
    let detail = stderr::shown(&body);
    // An HTML page is not helpful in an error message.
    let detail =
        if detail.is_empty() || detail.starts_with('<') { String::new() } else { format!(": {detail}") };
    let challenge = Challenge::of(&wants);
    if let Some(refused) = account.and_then(|account| account.explain(&origin, status, &challenge)) {
        return Refusal::Status(status, refused);
    }
    let error = match (status, rpc) {
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
            ClientError::Protocol(credentials(&origin, status, given, Some(&wants)))
        }
        (_, Some(rpc)) => rpc,
        // A reverse proxy may return this also for a call that it forwarded, when it lost the server.
        (StatusCode::SERVICE_UNAVAILABLE, None) if method == "tools/call" => {
            ClientError::Lost(format!("{origin} became unavailable during the call ({status}){detail}"))
        }
        (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, None) => {
            ClientError::Busy(format!("{origin} accepts no requests now ({status}){detail}"))
        }
        (StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT, None) => {
            ClientError::Lost(format!("the server behind {origin} did not answer ({status}){detail}"))
        }
        (StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED, None) => {
            let advice = "check the `url` in the server's file";
            ClientError::Protocol(format!(
                "{origin} has no MCP endpoint at this address ({status}); {advice}{detail}"
            ))
        }
        (_, None) => ClientError::Protocol(format!("{origin} answers {status} to {method}{detail}")),
    };
    Refusal::Status(status, error)
}

/// The beginning of a body. The connection is reused only if the whole body was read.
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

/// A JSON-RPC error in a body, with the id of the request it belongs to, if it is one of the hub's ids.
fn rpc_error(body: &[u8]) -> Option<(Option<RequestId>, ClientError)> {
    match Incoming::all(body)? {
        Messages::One(Incoming::Response { id, outcome: Err(error @ ClientError::Rpc { .. }) }) => {
            Some((id, error))
        }
        _ => None,
    }
}

/// Detects servers that report a lost session by text instead of 404. A tool may mention sessions too, and
/// its call was carried out; therefore the text only counts if the error belongs to no request or has a code
/// of the transport.
fn says_no_session(status: StatusCode, id: Option<Option<RequestId>>, rpc: Option<&ClientError>) -> bool {
    let Some(ClientError::Rpc { code, message, .. }) = rpc else { return false };
    let of_transport = id == Some(None) || TRANSPORT_CODES.contains(code);
    let message = message.to_ascii_lowercase();
    status == StatusCode::BAD_REQUEST
        && of_transport
        && NO_SESSION.iter().any(|words| message.contains(words))
}

/// Names the header that is missing or wrong.
fn credentials(origin: &str, status: StatusCode, given: bool, wants: Option<&str>) -> String {
    let scheme = wants.and_then(|wants| wants.split([' ', ',']).next()).unwrap_or("Bearer");
    let scheme: String = scheme.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
    match (status, given) {
        (StatusCode::UNAUTHORIZED, false) => format!(
            "{origin} requires credentials ({status}): set the header `Authorization` in the server's file, such as \
             \"{scheme} ${{env:NAME}}\", or the header that the server's documentation names"
        ),
        (StatusCode::UNAUTHORIZED, true) => format!(
            "{origin} does not accept the header `Authorization` of the server's file ({status}): it may have expired"
        ),
        (_, false) => format!(
            "{origin} does not allow this ({status}): set the header `Authorization`, or the one that the server's \
             documentation names, in the server's file"
        ),
        (_, true) => format!(
            "{origin} does not allow this ({status}) with the header `Authorization` of the server's file: it needs \
             more rights"
        ),
    }
}
