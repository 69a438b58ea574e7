//! `resources/subscribe` and `resources/unsubscribe`: which resources a session hears of. They are kept with the session
//! while it is in memory: after a restart of the hub a client subscribes again.

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
    match session.watched(|watching| watching.add(state, principal, &offers::seen(state, principal), &uri))? {
        true => {
            // What changes from now on is heard of.
            let servers = session.watched(|watching| watching.servers());
            state.upstreams.watches_applied(&servers).await;
            Ok(String::new())
        }
        false => Err(RpcError::invalid_params(
            "its server tells nothing of changes, or this session hears of as many resources as it may",
        )),
    }
}

pub(super) fn unsubscribe(session: &McpSession, params: &Params<'_>) -> Result<String, RpcError> {
    let uri = reads::uri(params)?;
    session.watched(|watching| watching.remove(&uri));
    Ok(String::new())
}
