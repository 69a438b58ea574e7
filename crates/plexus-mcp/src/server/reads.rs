//! `resources/read`, `prompts/get` and `completion/complete`, the part that all revisions share.

use plexus_auth::Principal;
use plexus_tools::RawJson;

use super::State;
use super::call::{Subject, Target};
use super::rpc::{self, Params, RpcError};
use super::version::Dialect;

/// What `resources/read` or `prompts/get` wants to have called.
pub(super) fn target(
    _state: &State,
    _principal: &Principal,
    method: &str,
    _params: &Params<'_>,
) -> Result<Target, RpcError> {
    Err(rpc::method_not_found(method))
}

/// The members of the result that another server gave, without the braces around them.
pub(super) fn members(_result: &RawJson, _subject: &Subject, _dialect: Dialect) -> Result<String, RpcError> {
    Err(rpc::method_not_found("resources/read"))
}

/// The members of the result of `completion/complete`.
pub(super) async fn complete(
    _state: &State,
    _principal: &Principal,
    _params: &Params<'_>,
    _dialect: Dialect,
) -> Result<String, RpcError> {
    Err(rpc::method_not_found("completion/complete"))
}
