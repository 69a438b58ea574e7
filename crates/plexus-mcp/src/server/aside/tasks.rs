//! `tasks/…`: calls that are asked after instead of waited for.

use std::sync::Arc;

use plexus_auth::Principal;
use plexus_tools::Capabilities;

use crate::server::State;
use crate::server::call::Subject;
use crate::server::rpc::{self, Params, RpcError};
use crate::server::under_way::UnderWay;

/// Lets a call go on as a task of its caller: the members of a result of the type `task`, once the task is stored. The
/// call comes back where that cannot be; it then goes on as any other.
#[allow(dead_code, reason = "calls come next")]
pub(in crate::server) async fn detach(
    _state: &Arc<State>,
    _principal: &Arc<Principal>,
    call: UnderWay,
    _target: &str,
    _subject: &Subject,
) -> Result<String, Box<UnderWay>> {
    Err(Box::new(call))
}

/// The members of a result that tells how a task stands.
pub(in crate::server) async fn get(
    _state: &State,
    _principal: &Principal,
    _params: &Params<'_>,
    _can: Capabilities,
) -> Result<String, RpcError> {
    Err(rpc::method_not_found("tasks/get"))
}

/// Takes answers to what a task asks.
pub(in crate::server) async fn update(
    _state: &State,
    _principal: &Principal,
    _params: &Params<'_>,
    _can: Capabilities,
) -> Result<String, RpcError> {
    Err(rpc::method_not_found("tasks/update"))
}

pub(in crate::server) async fn cancel(
    _state: &State,
    _principal: &Principal,
    _params: &Params<'_>,
    _can: Capabilities,
) -> Result<String, RpcError> {
    Err(rpc::method_not_found("tasks/cancel"))
}
