//! The authenticated node of a request, used by the link routes in place of a [`Caller`](super::Caller).
//!
//! A node's credential opens no other route, and no other credential opens these routes.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use http::StatusCode;
use http::header::AUTHORIZATION;
use http::request::Parts;
use plexus_auth::Principal;
use plexus_proto::api::TokenKind;
use plexus_proto::{ErrorCode, NodeId, Timestamp};
use plexus_store::Enrolment;

use super::ApiError;
use super::caller::authenticate;
use super::observe::record_subject;
use crate::App;
use crate::services::Services;
use crate::tls::ClientCertificate;

/// An authenticated request of a node about itself: the first variable part of the path is the node's id.
#[derive(Debug)]
pub(crate) struct NodeCaller {
    pub(crate) services: Arc<Services>,
    pub(crate) node: NodeId,
    /// The credential presented. Long-lived connections watch how long it remains valid. `None` if the node
    /// authenticated with a certificate.
    pub(crate) credential: Option<Arc<Principal>>,
    /// When the presented certificate expires, if there was one.
    pub(crate) certified_until: Option<Timestamp>,
}

impl FromRequestParts<App> for NodeCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let services = app.services()?;
        let named = named(parts, app).await?;
        let mut certified_until = None;
        if let Some(certificate) = parts.extensions.get::<ClientCertificate>().cloned() {
            let alone = !parts.headers.contains_key(AUTHORIZATION);
            let node = certified(&services, &certificate, named, alone).await?;
            certified_until = Some(certificate.expires_at());
            if alone {
                record_subject(&format!("{}:{node}", TokenKind::Node));
                return Ok(Self { services, node, credential: None, certified_until });
            }
            // A credential presented together with a certificate must belong to the same node.
        }
        let principal = authenticate(app, &services, parts)?;
        record_subject(principal.subject());
        if principal.kind() != TokenKind::Node {
            return Err(forbidden("only a node with its own credential may use this path")
                .hint("Run `plexus node invite NAME`, then run the printed command on the machine."));
        }
        match named.filter(|id| principal.is_node(*id)) {
            Some(node) => Ok(Self { services, node, credential: Some(principal), certified_until }),
            None => Err(forbidden("this credential belongs to another node")),
        }
    }
}

/// The node of the path, if the certificate is for it. `alone`: no credential was presented, which is allowed only
/// for a node that joined with a certificate.
async fn certified(
    services: &Services,
    certificate: &ClientCertificate,
    named: Option<NodeId>,
    alone: bool,
) -> Result<NodeId, ApiError> {
    // The handshake checked this too, but a connection may outlive its certificate.
    if certificate.expires_at() <= services.clock.now() {
        return Err(
            forbidden("the certificate has expired").hint("Create a new certificate, then connect again.")
        );
    }
    let mut reader = services.store.read_committed().await?;
    let node = match named {
        Some(id) => reader.node(id).await?,
        None => None,
    };
    let own = node.filter(|node| {
        let enough = match node.enrolled_by {
            Enrolment::Certificate => true,
            Enrolment::Code | Enrolment::Key => !alone,
            Enrolment::Local => false,
        };
        enough && certificate.is_of(node.id, &node.name)
    });
    // Callers without access get the same answer for a missing node and for another's node.
    own.map(|node| node.id).ok_or_else(|| {
        forbidden("this certificate is not for this node").hint(
            "It must have the name or the id of a node that has joined with it: see `plexus node list` on the hub, and \
             `plexus node join` with the certificate.",
        )
    })
}

fn forbidden(message: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, message)
}

/// The node in the path.
async fn named(parts: &mut Parts, app: &App) -> Result<Option<NodeId>, ApiError> {
    let path = RawPathParams::from_request_parts(parts, app).await;
    let path = path.map_err(|_| ApiError::bad_request("the path is not valid UTF-8"))?;
    Ok(path.iter().next().and_then(|(_, id)| id.parse().ok()))
}
