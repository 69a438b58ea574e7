//! `resources/subscribe` and `resources/unsubscribe`: which resources a session hears of.

use std::sync::Arc;

use plexus_auth::Principal;

use super::McpSession;
use crate::server::State;
use crate::server::rpc::{self, Params, RpcError};

pub(super) async fn subscribe(
    _state: &State,
    _session: &Arc<McpSession>,
    _principal: &Principal,
    _params: &Params<'_>,
) -> Result<String, RpcError> {
    Err(rpc::method_not_found("resources/subscribe"))
}

pub(super) fn unsubscribe(_session: &McpSession, _params: &Params<'_>) -> Result<String, RpcError> {
    Err(rpc::method_not_found("resources/unsubscribe"))
}
