//! Adding, removing, enabling, disabling and restarting servers.

use std::time::Duration;

use axum::Json;
use axum::extract::Request;
use http::header::LOCATION;
use http::{HeaderName, StatusCode};
use plexus_proto::api::{AddUpstreamParams, ReloadReport, RemovedUpstream, Upstream};
use plexus_upstream::config::{has_references, inward};
use serde_json::{Value, json};

use super::gate::{self, Program, RequestOrigin};
use super::record::{recorded, recorded_detail};
use super::{MAX_WAIT, WaitParams, check_name, in_folder, refused_by_folder, stored, unknown};
use crate::http::{ApiError, Caller};
use crate::routes::query::{Params, Segment};
use crate::routes::{refusals, tag};
use crate::services::Services;

/// Names of these operations in the audit log.
const ADD: &str = "upstream_add";
const REMOVE: &str = "upstream_remove";
const ENABLE: &str = "upstream_enable";
const DISABLE: &str = "upstream_disable";
const RESTART: &str = "upstream_restart";
const RELOAD: &str = "upstream_reload";

/// Add a server
///
/// Writes its file, starts it, and waits for it up to a limit; see its state in the answer. Needs the scope
/// `admin`. A server that is a process is accepted only over loopback, without a proxy, and with a command listed
/// in `upstreams.commands`. A server in the hub's own network is accepted over loopback too, or if
/// `upstreams.private_networks` is on.
#[utoipa::path(
    post,
    path = "/upstreams",
    operation_id = "addUpstream",
    tag = tag::UPSTREAMS,
    params(WaitParams),
    request_body = AddUpstreamParams,
    responses(
        (status = 201, description = "The server.", body = Upstream,
            headers(("Location" = String, description = "URL of the server.")),
            links(
                ("show" = (operation_id = "getUpstream", parameters(("server" = "$response.body#/name")))),
                ("remove" = (operation_id = "removeUpstream", parameters(("server" = "$response.body#/name")))),
            )),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(in crate::routes) async fn add(
    caller: Caller,
    origin: RequestOrigin,
    Params(wait): Params<WaitParams>,
    request: Request,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Upstream>), ApiError> {
    let params: AddUpstreamParams = caller.read_json(request, "a server to add").await?;
    check_name(&params.name)?;
    let patience = wait.patience()?;
    let AddUpstreamParams { name, server } = params;
    let audit_detail = recorded_detail(json!({ "name": name }), &server);
    let upstream = recorded(caller, ADD, audit_detail.clone(), async move |services| {
        let document = Value::Object(server);
        gate::check_references(&origin, has_references(&document))?;
        gate::check_network(&services, &origin, inward(&document))?;
        let (inside, new) = (services.clone(), name.clone());
        let added = in_folder(&services, move |folder| {
            let checked = folder.check(&new, &document).map_err(|problems| super::invalid(&problems))?;
            gate::check_command(&inside, &origin, Program::of(&checked))?;
            folder.add(&new, &document).map_err(refused_by_folder)?;
            Ok::<_, ApiError>(checked.transport.kind())
        });
        let transport = added.await??;
        services.upstreams.reload_within(patience).await;
        let upstream = services.upstreams.get(&name).ok_or_else(|| unknown(&name))?;
        let mut done = audit_detail;
        done["transport"] = json!(transport);
        Ok((done, upstream))
    })
    .await?;
    let location = format!("/api/v1/upstreams/{}", upstream.name);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(upstream)))
}

/// Remove a server
///
/// Stops it and removes its tools. Its file is kept as a backup, and its approvals are deleted. Needs the scope
/// `admin`.
#[utoipa::path(
    delete,
    path = "/upstreams/{server}",
    operation_id = "removeUpstream",
    tag = tag::UPSTREAMS,
    params(("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "The removed server and the path of its backup.", body = RemovedUpstream),
        (status = 404, response = refusals::NotFound),
    )
)]
pub(in crate::routes) async fn remove(
    caller: Caller,
    Segment(name): Segment,
) -> Result<Json<RemovedUpstream>, ApiError> {
    let removed = recorded(caller, REMOVE, json!({ "name": name }), async move |services| {
        services.upstreams.get(&name).ok_or_else(|| unknown(&name))?;
        // Log out while the server still exists: another server with its name must not inherit the access.
        if let Err(error) = services.upstreams.logout(&name).await {
            tracing::warn!(server = %name, %error, "the login of the server could not be deleted");
        }
        let removed_name = name.clone();
        let removed = in_folder(&services, move |folder| folder.remove(&removed_name)).await?;
        let backup = removed.map_err(refused_by_folder)?;
        services.upstreams.reload_without(&name).await?;
        let backup = backup.display().to_string();
        Ok((json!({ "name": name, "backup": backup }), RemovedUpstream { name, backup }))
    });
    Ok(Json(removed.await?))
}

/// Enable a server
///
/// Needs the scope `admin` and, for a server that is a process, the same conditions as adding it.
#[utoipa::path(
    post,
    path = "/upstreams/{server}/enable",
    operation_id = "enableUpstream",
    tag = tag::UPSTREAMS,
    params(
        ("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$"),
        WaitParams,
    ),
    responses(
        (status = 200, description = "The server.", body = Upstream),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(in crate::routes) async fn enable(
    caller: Caller,
    origin: RequestOrigin,
    Segment(name): Segment,
    Params(wait): Params<WaitParams>,
) -> Result<Json<Upstream>, ApiError> {
    let patience = wait.patience()?;
    let enabled = recorded(caller, ENABLE, json!({ "name": name }), async move |services| {
        services.upstreams.get(&name).ok_or_else(|| unknown(&name))?;
        gate::check_command(&services, &origin, Program::of(&stored(&services, &name).await?))?;
        switch(&services, &name, true, patience).await
    });
    Ok(Json(enabled.await?))
}

/// Disable a server
///
/// Stops it and removes its tools until it is enabled again. Needs the scope `admin`.
#[utoipa::path(
    post,
    path = "/upstreams/{server}/disable",
    operation_id = "disableUpstream",
    tag = tag::UPSTREAMS,
    params(("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "The server.", body = Upstream),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(in crate::routes) async fn disable(
    caller: Caller,
    Segment(name): Segment,
) -> Result<Json<Upstream>, ApiError> {
    let disabled = recorded(caller, DISABLE, json!({ "name": name }), async move |services| {
        services.upstreams.get(&name).ok_or_else(|| unknown(&name))?;
        switch(&services, &name, false, Duration::from_secs(MAX_WAIT)).await
    });
    Ok(Json(disabled.await?))
}

async fn switch(
    services: &Services,
    name: &str,
    enabled: bool,
    patience: Duration,
) -> Result<(Value, Upstream), ApiError> {
    let switched = name.to_owned();
    let switched = in_folder(services, move |folder| folder.set_enabled(&switched, enabled)).await?;
    switched.map_err(refused_by_folder)?;
    services.upstreams.reload_within(patience).await;
    let upstream = services.upstreams.get(name).ok_or_else(|| unknown(name))?;
    Ok((json!({ "name": name }), upstream))
}

/// Restart a server
///
/// Also one that was given up after crashes. Its file decides what runs, as before. Needs the scope `admin`.
#[utoipa::path(
    post,
    path = "/upstreams/{server}/restart",
    operation_id = "restartUpstream",
    tag = tag::UPSTREAMS,
    params(
        ("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$"),
        WaitParams,
    ),
    responses(
        (status = 200, description = "The server.", body = Upstream),
        (status = 404, response = refusals::NotFound),
    )
)]
pub(in crate::routes) async fn restart(
    caller: Caller,
    Segment(name): Segment,
    Params(wait): Params<WaitParams>,
) -> Result<Json<Upstream>, ApiError> {
    let patience = wait.patience()?;
    let restarted = recorded(caller, RESTART, json!({ "name": name }), async move |services| {
        let upstream =
            services.upstreams.restart_within(&name, patience).await.ok_or_else(|| unknown(&name))?;
        Ok((json!({ "name": name, "state": upstream.state }), upstream))
    });
    Ok(Json(restarted.await?))
}

/// Reload the files of all servers
///
/// Only changed servers are restarted. Needs the scope `admin`.
#[utoipa::path(
    post,
    path = "/upstreams/-/reload",
    operation_id = "reloadUpstreams",
    tag = tag::UPSTREAMS,
    responses((status = 200, description = "The changes.", body = ReloadReport))
)]
pub(in crate::routes) async fn reload(caller: Caller) -> Result<Json<ReloadReport>, ApiError> {
    let reloaded = recorded(caller, RELOAD, json!({}), async move |services| {
        let report = services.upstreams.reload().await;
        let failed: Vec<&str> = report.failed.iter().map(|one| one.name.as_str()).collect();
        let detail = json!({
            "added": report.added, "removed": report.removed, "changed": report.changed, "failed": failed,
        });
        Ok((detail, report))
    });
    Ok(Json(reloaded.await?))
}
