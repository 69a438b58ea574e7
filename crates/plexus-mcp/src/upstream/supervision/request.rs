//! A request to a server that is no call of a tool, on behalf of a caller.

use std::sync::Arc;

use bytes::Bytes;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, ToolContext};

use super::unit::Unit;
use crate::upstream::client::Request;

/// The text of the result; what the server asks on the way is asked of the caller.
#[allow(dead_code, reason = "resources and prompts come next")]
pub(super) async fn request(
    unit: &Arc<Unit>,
    _context: &ToolContext,
    request: Request,
) -> Result<Bytes, CallError> {
    let message = format!("{} is not asked for {} yet", unit.name, request.method.name());
    Err(CallError::new(ErrorCode::Unavailable, message))
}
