//! What the hub asks the client of a session, and what it answers.

use serde_json::value::RawValue;

use super::McpSession;

/// Takes an answer; one to what was never asked is none of our business.
pub(super) fn answered(_session: &McpSession, _id: &RawValue, _outcome: Result<&RawValue, &RawValue>) {}
