//! Interprets error answers and close frames from the hub or from an intermediary.

use http::StatusCode;
use plexus_proto::node::close;
use plexus_proto::{ErrorCode, ErrorEnvelope};

use super::LinkError;

/// Maximum characters of a message from the other side.
const MAX_MESSAGE: usize = 300;

/// Whether the hub itself has refused the node, so that another transport would be refused too. The answer of an HTTP
/// proxy does not count.
pub(super) fn is_refusal(status: StatusCode, body: &[u8]) -> bool {
    let code = serde_json::from_slice::<ErrorEnvelope>(body).ok().map(|envelope| envelope.code);
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => code.is_some(),
        StatusCode::NOT_FOUND => code == Some(ErrorCode::NotFound),
        _ => false,
    }
}

/// The message for users.
pub(super) fn message(status: StatusCode, body: &[u8]) -> String {
    match serde_json::from_slice::<ErrorEnvelope>(body) {
        Ok(envelope) => shortened(&envelope.message),
        Err(_) => format!("the answer was {status}"),
    }
}

/// The reason for which a link ends, from the status of an HTTP answer.
pub(super) fn from_status(status: StatusCode, body: &[u8]) -> LinkError {
    let message = message(status, body);
    match status {
        StatusCode::CONFLICT => LinkError::Fenced,
        StatusCode::GONE => LinkError::Closed(Some(message)),
        _ if is_refusal(status, body) => LinkError::Refused(message),
        _ => LinkError::Broken(message),
    }
}

/// The reason for which a link ends, from the code of a close frame.
pub(super) fn from_close_code(code: u16, reason: &str) -> LinkError {
    match code {
        close::FENCED => LinkError::Fenced,
        close::REFUSED => LinkError::Refused(shortened(reason)),
        _ => LinkError::Closed(Some(shortened(reason)).filter(|reason| !reason.is_empty())),
    }
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE).collect()
}
