//! How machines become nodes.
//!
//! `POST /nodes/join` is the only route of the API without a token. An invalid code or key counts as a failed
//! authentication.

use std::net::{IpAddr, SocketAddr};

use axum::Json;
use axum::extract::{ConnectInfo, Request, State};
use http::StatusCode;
use plexus_auth::AuthError;
use plexus_proto::api::{InviteNodeParams, JoinNodeParams, NodeCredential, NodeInvite, Page, PendingInvite};
use plexus_store::NodeInvite as Invitation;

use crate::App;
use crate::http::{ApiError, Caller, NodeCaller, note_failed_attempt};
use crate::routes::query::Segment;
use crate::routes::{refusals, tag};
use crate::services::Services;
use crate::tls::ClientCertificate;

pub(super) const MANAGE: &str = "manage:nodes";
/// Maximum body size of an unauthenticated request, in bytes.
const MAX_JOIN: usize = 16 << 10;

/// Invite a machine to become a node
///
/// Returns a code that one machine can use once before it expires, and invalidates an earlier code for the same name.
/// Needs the scope `manage:nodes`.
#[utoipa::path(
    post,
    path = "/nodes/invites",
    operation_id = "inviteNode",
    tag = tag::NODES,
    request_body = InviteNodeParams,
    responses(
        (status = 201, description = "The invitation with its code.", body = NodeInvite),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(in crate::routes) async fn invite(
    caller: Caller,
    State(app): State<App>,
    request: Request,
) -> Result<(StatusCode, Json<NodeInvite>), ApiError> {
    let params: InviteNodeParams = caller.read_json(request, "an invitation").await?;
    let invited = caller.services.authenticator.invite_node(&caller.principal, params).await?;
    let Invitation { name, labels, expires_at, .. } = invited.invite;
    let invite = NodeInvite { code: invited.code, hub: app.public_url(), expires_at, name, labels };
    Ok((StatusCode::CREATED, Json(invite)))
}

/// List invitations
///
/// Unused invitations, without their codes. Needs the scope `read:nodes`.
#[utoipa::path(
    get,
    path = "/nodes/invites",
    operation_id = "listNodeInvites",
    tag = tag::NODES,
    responses((status = 200, description = "The invitations.", body = Page<PendingInvite>))
)]
pub(in crate::routes) async fn invites(caller: Caller) -> Result<Json<Page<PendingInvite>>, ApiError> {
    caller.require_scope(super::READ)?;
    let now = caller.services.clock.now();
    let invites = caller.services.store.read_committed().await?.node_invites(now).await?;
    Ok(Json(Page { items: invites.into_iter().map(pending).collect(), next: None }))
}

/// Withdraw an invitation
///
/// Invalidates its code. Needs the scope `manage:nodes`.
#[utoipa::path(
    delete,
    path = "/nodes/invites/{name}",
    operation_id = "withdrawNodeInvite",
    tag = tag::NODES,
    params(("name" = String, Path, description = "Name of the invited node.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "The withdrawn invitation.", body = PendingInvite),
        (status = 404, response = refusals::NotFound),
    )
)]
pub(in crate::routes) async fn withdraw(
    caller: Caller,
    Segment(name): Segment,
) -> Result<Json<PendingInvite>, ApiError> {
    caller.require_scope(MANAGE)?;
    let not_found = || ApiError::not_found("there is no invitation for this name");
    withdrawn(caller, &name).await?.map(|invite| Json(pending(invite))).ok_or_else(not_found)
}

/// Withdraws the invitation for a name; `None` if there is none.
pub(super) async fn withdrawn(caller: Caller, name: &str) -> Result<Option<Invitation>, ApiError> {
    let Caller { services, principal } = caller;
    let invites = services.store.read_committed().await?.node_invites(services.clock.now()).await?;
    let Some(invite) = invites.into_iter().find(|invite| invite.name == name) else { return Ok(None) };
    let withdrawn = services.authenticator.withdraw_invite(&principal, name).await?;
    Ok(withdrawn.then_some(invite))
}

fn pending(invite: Invitation) -> PendingInvite {
    let Invitation { name, labels, rejoin, created_by, created_at, expires_at, .. } = invite;
    PendingInvite { name, labels, rejoin, created_by, created_at, expires_at }
}

/// Become a node
///
/// Exchanges the code of an invitation, once, or the key of the hub's setting `nodes.key`, for a credential that is
/// valid for the link of this node only. A machine with a certificate signed by the authority of `nodes.client_ca`
/// sends neither, and learns which node it is. Takes no token.
#[utoipa::path(
    post,
    path = "/nodes/join",
    operation_id = "joinNode",
    tag = tag::NODES,
    security(()),
    request_body = JoinNodeParams,
    responses(
        (status = 201, description = "The new node and its credential.", body = NodeCredential),
        (status = 409, response = refusals::Conflict),
        refusals::Always,
    )
)]
pub(in crate::routes) async fn join(
    State(app): State<App>,
    request: Request,
) -> Result<(StatusCode, Json<NodeCredential>), ApiError> {
    let services = app.services()?;
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
    let certificate = request.extensions().get::<ClientCertificate>().cloned();
    let params: JoinNodeParams = services.read_json(request, "a request to join", MAX_JOIN).await?;
    let shown = params.code.clone().or_else(|| params.key.clone());
    let inside = services.clone();
    let joined = services
        .run_to_completion("letting a node in", async move {
            let joined = admitted(&inside, params, certificate).await?;
            if let Some(record) = inside.store.read_committed().await?.node(joined.node_id).await? {
                inside.nodes.changed(&record);
            }
            Ok::<_, AuthError>(joined)
        })
        .await?;
    joined
        .map(|joined| (StatusCode::CREATED, Json(joined)))
        .map_err(|error| refused(&app, &services, peer, shown.as_deref(), error))
}

async fn admitted(
    services: &Services,
    params: JoinNodeParams,
    certificate: Option<ClientCertificate>,
) -> Result<NodeCredential, AuthError> {
    let wrong = |what: &str| AuthError::Invalid(format!("send either a code, or a key and a name: {what}"));
    let JoinNodeParams { code, key, name, labels } = params;
    match (code, key) {
        (Some(_), _) if name.is_some() || !labels.is_empty() => {
            Err(wrong("the code already contains the name"))
        }
        (Some(code), None) => services.authenticator.join_with_code(&code).await,
        (None, Some(key)) => {
            let name = name.ok_or_else(|| wrong("the name is missing"))?;
            let expected = services.config.load().nodes.key.clone();
            let occupied = |id| services.nodes.is_occupied(id);
            services.authenticator.join_with_key(expected.as_ref(), &key, &name, labels, occupied).await
        }
        (Some(_), Some(_)) => Err(wrong("both were sent")),
        (None, None) => match certificate {
            Some(own) => services.authenticator.join_with_certificate(own.names(), own.expires_at()).await,
            None if services.config.load().tls.client_ca.is_some() => {
                Err(wrong("neither was sent, and no certificate was presented"))
            }
            None => Err(wrong(
                "neither was sent, and this hub accepts no certificates (nodes.client_ca is not set)",
            )),
        },
    }
}

/// An invalid code or key is throttled like an invalid token.
fn refused(
    app: &App,
    services: &Services,
    peer: Option<IpAddr>,
    shown: Option<&str>,
    error: AuthError,
) -> ApiError {
    if !matches!(error, AuthError::NotAdmitted(_)) {
        return error.into();
    }
    app.http.auth_failed(error.reason());
    note_failed_attempt(services, peer, shown, &error.to_string()).unwrap_or_else(|| error.into())
}

/// Renew the credential of a node
///
/// For the node itself, with its current credential. All its earlier credentials expire one hour later.
#[utoipa::path(
    post,
    path = "/nodes/{id}/credential",
    operation_id = "renewNodeCredential",
    tag = tag::NODES,
    params(("id" = plexus_proto::NodeId, Path, description = "The node.")),
    responses(
        (status = 201, description = "The credential.", body = NodeCredential),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(in crate::routes) async fn renew(
    caller: NodeCaller,
) -> Result<(StatusCode, Json<NodeCredential>), ApiError> {
    let NodeCaller { services, node, credential, .. } = caller;
    let credential = credential.ok_or_else(|| {
        let message = "a node that authenticates with a certificate has no credential to renew";
        ApiError::new(StatusCode::CONFLICT, plexus_proto::ErrorCode::Conflict, message)
    })?;
    let authenticator = services.authenticator.clone();
    let renewed = services.run_to_completion("renewing the credential of a node", async move {
        authenticator.renew_node(&credential, node).await
    });
    Ok((StatusCode::CREATED, Json(renewed.await??)))
}
