//! Which node asks: what the routes of links take in the place of a [`Caller`](super::Caller).
//!
//! A node is nobody but itself: its credential opens no other route, and no other credential opens these.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use http::StatusCode;
use http::request::Parts;
use plexus_auth::Principal;
use plexus_proto::api::TokenKind;
use plexus_proto::{ErrorCode, NodeId};

use super::ApiError;
use super::caller::authenticate;
use super::observe::asked_by;
use crate::App;
use crate::services::Services;

/// An authenticated request of a node about itself: the first part of the path that varies is its id.
#[derive(Debug)]
pub(crate) struct NodeCaller {
    pub(crate) services: Arc<Services>,
    pub(crate) node: NodeId,
    /// What it showed; whoever goes on talking to it looks at the time that this has left. None where a certificate said
    /// who it is.
    pub(crate) credential: Option<Arc<Principal>>,
}

impl FromRequestParts<App> for NodeCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let services = app.services()?;
        let principal = authenticate(app, &services, parts)?;
        asked_by(principal.subject());
        let named = named(parts, app).await?;
        let forbidden = |message: &str| ApiError::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, message);
        if principal.kind() != TokenKind::Node {
            return Err(forbidden("only a node with its own credential may use this path")
                .hint("Run `plexus node invite NAME`, and on the machine what it prints."));
        }
        match named.filter(|id| principal.is_node(*id)) {
            Some(node) => Ok(Self { services, node, credential: Some(principal) }),
            None => Err(forbidden("this credential is that of another node")),
        }
    }
}

/// The node that the path names.
async fn named(parts: &mut Parts, app: &App) -> Result<Option<NodeId>, ApiError> {
    let path = RawPathParams::from_request_parts(parts, app).await;
    let path = path.map_err(|_| ApiError::bad_request("the path is not UTF-8"))?;
    Ok(path.iter().next().and_then(|(_, id)| id.parse().ok()))
}
