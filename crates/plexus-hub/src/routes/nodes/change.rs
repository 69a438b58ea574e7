//! Changing and removing nodes.

use axum::Json;
use axum::extract::Request;
use plexus_proto::api::{ChangeNodeParams, Node, RemovedNode};

use super::{enrol, find, unknown, view};
use crate::http::{ApiError, Caller};
use crate::routes::query::Segment;
use crate::routes::{refusals, tag};

/// Change a node
///
/// Changes its name, its labels, and whether it accepts new calls; absent fields are left unchanged. Its credential
/// stays valid after a rename. Needs the scope `manage:nodes`.
#[utoipa::path(
    patch,
    path = "/nodes/{node}",
    operation_id = "changeNode",
    tag = tag::NODES,
    params(("node" = String, Path, description = "Name or id of the node.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    request_body = ChangeNodeParams,
    responses(
        (status = 200, description = "The node.", body = Node),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(in crate::routes) async fn change(
    caller: Caller,
    Segment(node): Segment,
    request: Request,
) -> Result<Json<Node>, ApiError> {
    caller.require_scope(enrol::MANAGE)?;
    let params: ChangeNodeParams = caller.read_json(request, "a change of a node").await?;
    let id = find(&caller.services, &node).await?.ok_or_else(|| unknown(&node))?.id;
    let Caller { services, principal } = caller;
    let inside = services.clone();
    let changed = services.run_to_completion("changing a node", async move {
        let changed = inside.authenticator.change_node(&principal, id, params).await?;
        if let Some(record) = &changed {
            inside.nodes.changed(record);
        }
        Ok::<_, ApiError>(changed)
    });
    let record = changed.await??.ok_or_else(|| unknown(&node))?;
    Ok(Json(view::shown(&services, record)))
}

/// Remove a node
///
/// Closes its link, invalidates its credential immediately and permanently, and ends its calls as interrupted. For
/// a node that was invited but has not joined, withdraws the invitation. Needs the scope `manage:nodes`.
#[utoipa::path(
    delete,
    path = "/nodes/{node}",
    operation_id = "removeNode",
    tag = tag::NODES,
    params(("node" = String, Path, description = "Name or id of the node.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "The removed node or invitation.", body = RemovedNode),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(in crate::routes) async fn remove(
    caller: Caller,
    Segment(node): Segment,
) -> Result<Json<RemovedNode>, ApiError> {
    caller.require_scope(enrol::MANAGE)?;
    let Some(record) = find(&caller.services, &node).await? else {
        let invite = enrol::withdrawn(caller, &node).await?.ok_or_else(|| unknown(&node))?;
        return Ok(Json(RemovedNode { id: invite.node_id, name: invite.name }));
    };
    let Caller { services, principal } = caller;
    let inside = services.clone();
    let removed = services.run_to_completion("removing a node", async move {
        let removed = inside.authenticator.remove_node(&principal, record.id).await?;
        if removed.is_some() {
            inside.nodes.removed(record.id).await;
        }
        Ok::<_, ApiError>(removed)
    });
    let record = removed.await??.ok_or_else(|| unknown(&node))?;
    Ok(Json(RemovedNode { id: record.id, name: record.name }))
}
