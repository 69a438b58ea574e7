//! `resources/subscribe` and `resources/unsubscribe`. Subscriptions live in memory only: after a restart of the hub
//! the client has to subscribe again.

use std::sync::Arc;

use plexus_auth::Principal;

use super::McpSession;
use crate::server::rpc::{Params, RpcError};
use crate::server::{State, offers, reads};

pub(super) async fn subscribe(
    state: &State,
    session: &Arc<McpSession>,
    principal: &Principal,
    params: &Params<'_>,
) -> Result<String, RpcError> {
    let uri = reads::uri(params)?;
    let visible = offers::visible(state, principal);
    match session.with_watched(|watched| watched.add(state, principal, &visible, &uri))? {
        true => {
            // No change after the answer is missed.
            let servers = session.with_watched(|watched| watched.servers());
            state.upstreams.watches_applied(&servers).await;
            Ok(String::new())
        }
        false => Err(RpcError::invalid_params(
            "its server does not announce changes, or this session watches too many resources",
        )),
    }
}

pub(super) fn unsubscribe(session: &McpSession, params: &Params<'_>) -> Result<String, RpcError> {
    let uri = reads::uri(params)?;
    session.with_watched(|watched| watched.remove(&uri));
    Ok(String::new())
}
