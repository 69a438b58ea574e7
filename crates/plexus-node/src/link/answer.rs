//! What a hub, or somebody between it and the node, says instead of doing what was asked.

use http::StatusCode;
use plexus_proto::node::close;
use plexus_proto::{ErrorCode, ErrorEnvelope};

use super::LinkError;

/// Characters of what others say.
const WORDS: usize = 300;

/// Whether the hub itself says no to who asks: another way would lead to the same answer. What a proxy says is not the
/// hub's word.
pub(super) fn is_refusal(status: StatusCode, body: &[u8]) -> bool {
    let code = serde_json::from_slice::<ErrorEnvelope>(body).ok().map(|said| said.code);
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => code.is_some(),
        StatusCode::NOT_FOUND => code == Some(ErrorCode::NotFound),
        _ => false,
    }
}

/// For people.
pub(super) fn message(status: StatusCode, body: &[u8]) -> String {
    match serde_json::from_slice::<ErrorEnvelope>(body) {
        Ok(said) => short(&said.message),
        Err(_) => format!("the answer was {status}"),
    }
}

/// The end of a link by the status of a request.
pub(super) fn ended(status: StatusCode, body: &[u8]) -> LinkError {
    let said = message(status, body);
    match status {
        StatusCode::CONFLICT => LinkError::Fenced,
        StatusCode::GONE => LinkError::Closed(Some(said)),
        _ if is_refusal(status, body) => LinkError::Refused(said),
        _ => LinkError::Broken(said),
    }
}

/// The end of a link by the number of a close frame.
pub(super) fn closed(code: u16, reason: &str) -> LinkError {
    match code {
        close::FENCED => LinkError::Fenced,
        close::REFUSED => LinkError::Refused(short(reason)),
        _ => LinkError::Closed(Some(short(reason)).filter(|reason| !reason.is_empty())),
    }
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(WORDS).collect()
}
