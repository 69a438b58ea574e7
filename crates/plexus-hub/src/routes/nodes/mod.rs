//! `/api/v1/nodes`: the machines that tools run on.
//!
//! The database has the list of nodes, and the gateway knows their current state. A change is committed first and
//! then passed to the gateway; both steps run to completion even if the client disconnects.

mod change;
mod enrol;
mod view;

use axum::Json;
use http::HeaderMap;
use plexus_proto::api::{Node, Page};
use plexus_store::NodeRecord;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::{self, Cursor, PageParams, Params, Segment};
use super::{openapi, refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller, Tagged};
use crate::services::Services;

const READ: &str = "read:nodes";
const CURSOR: Cursor = Cursor("nodes");

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(enrol::invites, enrol::invite))
        .routes(routes!(enrol::withdraw))
        .routes(routes!(enrol::join))
        .routes(routes!(show, change::change, change::remove))
        .routes(routes!(enrol::renew))
}

/// List nodes
///
/// Sorted by name, each with its current state. Needs the scope `read:nodes`.
#[utoipa::path(
    get,
    path = "/nodes",
    operation_id = "listNodes",
    tag = tag::NODES,
    params(PageParams),
    responses(
        (status = 200, description = "A page of nodes.", body = Page<Node>),
        openapi::Cached,
    )
)]
pub(super) async fn list(
    caller: Caller,
    Params(page): Params<PageParams>,
    headers: HeaderMap,
) -> Result<Tagged, ApiError> {
    caller.require_scope(READ)?;
    let limit = query::limit(page.limit)?;
    let after: String = CURSOR.read(page.cursor.as_deref())?.unwrap_or_default();
    let one_more = usize::try_from(limit).unwrap_or_default() + 1;
    let all = caller.services.store.read_committed().await?.nodes().await?;
    let here = all.into_iter().filter(|node| node.name > after).take(one_more);
    let items = here.map(|node| view::shown(&caller.services, node)).collect();
    let page: Page<Node> = CURSOR.page(items, limit, |node| node.name.clone());
    Tagged::json(&headers, &page)
}

/// Show a node
///
/// By name or id. Needs the scope `read:nodes`.
#[utoipa::path(
    get,
    path = "/nodes/{node}",
    operation_id = "getNode",
    tag = tag::NODES,
    params(("node" = String, Path, description = "Name or id of the node.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "The node.", body = Node),
        (status = 404, response = refusals::NotFound),
    )
)]
pub(super) async fn show(caller: Caller, Segment(node): Segment) -> Result<Json<Node>, ApiError> {
    caller.require_scope(READ)?;
    let node = find(&caller.services, &node).await?.ok_or_else(|| unknown(&node))?;
    Ok(Json(view::shown(&caller.services, node)))
}

/// The node with this name or id.
async fn find(services: &Services, node: &str) -> Result<Option<NodeRecord>, ApiError> {
    let mut reader = services.store.read_committed().await?;
    Ok(match node.parse() {
        Ok(id) => reader.node(id).await?,
        Err(_) => reader.node_named(node).await?,
    })
}

fn unknown(node: &str) -> ApiError {
    let shown: String = node.chars().take(64).collect();
    ApiError::not_found(format!("there is no node {shown:?}")).hint("`plexus node list` shows them.")
}
