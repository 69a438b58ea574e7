//! A request to a server that is no call of a tool, on behalf of a caller.

use std::sync::Arc;

use bytes::Bytes;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, ToolContext};

use super::errand::{self, Ended, Errand, Mission};
use super::reach::{self, Patience};
use super::unit::Unit;
use crate::upstream::client::{Replied, Request};

#[allow(dead_code, reason = "resources and prompts come next")]
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
    match mission.run(&errand).await? {
        Ended::Result(result) => Ok(result),
        Ended::Output(_) => Err(CallError::new(ErrorCode::Internal, "a request ended as something else")),
    }
}

/// The same for what is asked in passing, by nobody who could be asked back, over the connection that all share and within
/// the time that connecting may take.
#[allow(dead_code, reason = "completion comes next")]
pub(super) async fn in_passing(unit: &Arc<Unit>, request: Request) -> Result<Bytes, CallError> {
    let name = request.method.name();
    let connected = reach::shared(unit, Patience::Starting).await?;
    match connected.client.request(request).await {
        Ok(Replied::Result(result)) => {
            unit.pulse.hear();
            Ok(result)
        }
        Ok(Replied::Ask { .. }) => {
            let message =
                format!("{} asks something before it answers {name}, and nobody can be asked", unit.name);
            Err(CallError::new(ErrorCode::ToolFailed, message))
        }
        Err(error) => Err(errand::explain(unit, name, error)),
    }
}
