//! `tasks/…`: calls that are asked after instead of waited for.

use plexus_auth::Principal;
use plexus_tools::Capabilities;

use crate::server::State;
use crate::server::rpc::{self, Params, RpcError};

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
