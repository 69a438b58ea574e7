//! Testing a server with a single connection, independent of the running servers.

use axum::Json;
use axum::extract::Request;
use http::StatusCode;
use plexus_proto::ErrorCode;
use plexus_proto::api::{TestUpstreamParams, UpstreamTest};
use plexus_upstream::config::{has_references, inward};
use serde_json::{Map, Value, json};

use super::gate::{self, Program, RequestOrigin};
use super::record::{recorded, recorded_detail};
use super::{check_name, in_folder, shown, stored, unknown};
use crate::http::{ApiError, Caller};
use crate::routes::query::Segment;
use crate::routes::{refusals, tag};

/// Name of this operation in the audit log.
const TEST: &str = "upstream_test";

/// Test a server
///
/// Connects to it once, lists its tools and disconnects; nothing is stored. Tests the `server` in the body if there
/// is one, and otherwise the existing server with that name. Needs the scope `admin` and, for a server that is a
/// process, the same conditions as adding it.
#[utoipa::path(
    post,
    path = "/upstreams/{server}/test",
    operation_id = "testUpstream",
    tag = tag::UPSTREAMS,
    params(("server" = String, Path, description = "The server; it need not exist if the body has one.",
        pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    request_body = TestUpstreamParams,
    responses(
        (status = 200, description = "The result of the test, even if it failed.", body = UpstreamTest),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(in crate::routes) async fn test(
    caller: Caller,
    origin: RequestOrigin,
    Segment(name): Segment,
    request: Request,
) -> Result<Json<UpstreamTest>, ApiError> {
    let params: TestUpstreamParams = caller.read_json(request, "a server to test").await?;
    let audit_detail = json!({ "name": name, "stored": params.server.is_none() });
    let audit_detail = recorded_detail(audit_detail, params.server.as_ref().unwrap_or(&Map::new()));
    let tested = recorded(caller, TEST, audit_detail.clone(), async move |services| {
        let (server, mut done) = match params.server {
            Some(document) => {
                check_name(&name)?;
                let document = Value::Object(document);
                gate::check_references(&origin, has_references(&document))?;
                gate::check_network(&services, &origin, inward(&document))?;
                let tried = name.clone();
                let checked = in_folder(&services, move |folder| folder.check(&tried, &document)).await?;
                (checked.map_err(|problems| super::invalid(&problems))?, audit_detail)
            }
            None => {
                services.upstreams.get(&name).ok_or_else(|| unknown(&name))?;
                let document = shown(&services, &name).await?.and_then(|shown| shown.as_object().cloned());
                (
                    stored(&services, &name).await?,
                    recorded_detail(audit_detail, &document.unwrap_or_default()),
                )
            }
        };
        done["transport"] = json!(server.transport.kind());
        gate::check_command(&services, &origin, Program::of(&server))?;
        let Ok(_place) = services.upstream_trials.try_acquire() else {
            let message = "too many other servers are being tested";
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::Overloaded, message)
                .hint("Try again when those tests have finished."));
        };
        tokio::select! {
            report = services.upstreams.test(server) => {
                done["success"] = json!(report.success);
                Ok((done, report))
            }
            () = services.draining.cancelled() => {
                let message = "the hub is stopping";
                Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable, message))
            }
        }
    });
    Ok(Json(tested.await?))
}
