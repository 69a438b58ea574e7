//! A request to a server that is no call of a tool, on behalf of a caller.

use std::sync::Arc;

use bytes::Bytes;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, ToolContext};

use super::errand::{Ended, Errand, Mission};
use super::unit::Unit;
use crate::client::Request;

/// The text of the result; what the server asks on the way is asked of the caller. Only for what may be read twice.
pub(super) async fn request(
    unit: &Arc<Unit>,
    context: &ToolContext,
    request: Request,
) -> Result<Bytes, CallError> {
    let gone = || CallError::new(ErrorCode::UnknownTool, format!("{} is gone", unit.name));
    let config = unit.config().ok_or_else(gone)?;
    let _beat = unit.pulse.begin(config.timeout);
    let mission = Mission::begin(unit, &config, context, true).await?;
    let errand = Errand::Request { method: request.method, params: request.params };
    let ended = mission.run(&errand).await;
    // Only of a call it is said what its client lacks; the note goes with the request.
    let _ = mission.lacking();
    match ended? {
        Ended::Result(result) => Ok(result),
        Ended::Output(_) => Err(CallError::new(ErrorCode::Internal, "a request ended as something else")),
    }
}
