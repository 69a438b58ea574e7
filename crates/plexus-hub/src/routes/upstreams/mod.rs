//! `/api/v1/upstreams`: the MCP servers behind the hub.
//!
//! Reading them depends on scopes and profiles: non-admins see only servers whose tools they can see (`view`).
//! `gate` decides who may change them, and every change and refused change is recorded in the audit log (`record`).
//! In paths, `-` in place of a name means all servers: no server can have that name.

mod approve;
mod change;
pub(super) mod gate;
mod import;
mod login;
pub(super) mod record;
mod trial;
mod view;

use std::time::Duration;

use axum::Json;
use http::{HeaderMap, StatusCode};
use plexus_auth::Scope;
use plexus_proto::ErrorCode;
use plexus_proto::api::{Page, Upstream, UpstreamDetail, UpstreamLogs};
use plexus_upstream::config::{Folder, FolderError, Problem, ServerConfig};
use serde::Deserialize;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::view::UpstreamView;
use super::query::{self, Cursor, PageParams, Params, Segment};
use super::{openapi, refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller, Tagged};
use crate::services::Services;

const READ: &str = "read:upstreams";
const CURSOR: Cursor = Cursor("upstreams");
/// Number of log lines returned by default.
const LINES: usize = 100;
/// Maximum number of log lines in one answer; the hub keeps only a ring of them.
const MAX_LINES: usize = 1_000;
/// Longest time that an answer waits for a server, in seconds. A client that wants to wait longer asks again.
const MAX_WAIT: u64 = 15;

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, change::add))
        .routes(routes!(import::import))
        .routes(routes!(change::reload))
        .routes(routes!(show, change::remove))
        .routes(routes!(logs))
        .routes(routes!(change::enable))
        .routes(routes!(change::disable))
        .routes(routes!(change::restart))
        .routes(routes!(approve::pending))
        .routes(routes!(approve::approve))
        .routes(routes!(trial::test))
        .routes(routes!(login::begin))
        .routes(routes!(login::finish))
        .routes(routes!(login::logout))
}

/// List servers
///
/// Sorted by name, each with its state. Needs the scope `read:upstreams`. Non-admins see only servers whose tools
/// they can see, and only those tools.
#[utoipa::path(
    get,
    path = "/upstreams",
    operation_id = "listUpstreams",
    tag = tag::UPSTREAMS,
    params(PageParams),
    responses(
        (status = 200, description = "A page of servers.", body = Page<Upstream>),
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
    let view = UpstreamView::of(&caller);
    let all = caller.services.upstreams.list().into_iter().filter_map(|upstream| view.show(upstream));
    let items = all.filter(|upstream| upstream.name > after).take(one_more).collect();
    let page: Page<Upstream> = CURSOR.page(items, limit, |upstream| upstream.name.clone());
    Tagged::json(&headers, &page)
}

/// Show a server
///
/// Its state. Needs the scope `read:upstreams`. Non-admins must be able to see one of its tools; admins also get
/// its file with secrets masked, and the standard error of its last failure.
#[utoipa::path(
    get,
    path = "/upstreams/{server}",
    operation_id = "getUpstream",
    tag = tag::UPSTREAMS,
    params(("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "The server.", body = UpstreamDetail),
        openapi::Cached,
        (status = 404, response = refusals::NotFound),
    )
)]
pub(super) async fn show(
    caller: Caller,
    Segment(name): Segment,
    headers: HeaderMap,
) -> Result<Tagged, ApiError> {
    caller.require_scope(READ)?;
    let upstream =
        caller.services.upstreams.get(&name).and_then(|upstream| UpstreamView::of(&caller).show(upstream));
    // A name without a server never reaches the folder.
    let upstream = upstream.ok_or_else(|| unknown(&name))?;
    let document = match caller.principal.is_admin() {
        true => shown(&caller.services, &name).await?,
        false => None,
    };
    Tagged::json(&headers, &UpstreamDetail { upstream, document })
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LogParams {
    /// Maximum number of lines; the newest are returned.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
}

/// How long to wait for the effect of a change.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitParams {
    /// Longest time to wait for the server, in seconds; see its state in the answer.
    #[param(minimum = 0, maximum = 15, default = 15)]
    wait_seconds: Option<u64>,
}

impl WaitParams {
    fn patience(&self) -> Result<Duration, ApiError> {
        match self.wait_seconds.unwrap_or(MAX_WAIT) {
            seconds @ 0..=MAX_WAIT => Ok(Duration::from_secs(seconds)),
            other => Err(ApiError::bad_request(format!("wait_seconds must be 0 to {MAX_WAIT}, not {other}"))),
        }
    }
}

/// Show the standard error of a server
///
/// The newest lines, oldest first; empty for a server over HTTP. Needs the scope `admin`, because a server may write
/// anything there.
#[utoipa::path(
    get,
    path = "/upstreams/{server}/logs",
    operation_id = "getUpstreamLogs",
    tag = tag::UPSTREAMS,
    params(
        ("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$"),
        LogParams,
    ),
    responses(
        (status = 200, description = "The lines.", body = UpstreamLogs),
        (status = 404, response = refusals::NotFound),
    )
)]
pub(super) async fn logs(
    caller: Caller,
    Segment(name): Segment,
    Params(params): Params<LogParams>,
) -> Result<Json<UpstreamLogs>, ApiError> {
    caller.require_scope(Scope::ADMIN)?;
    let limit = match params.limit.unwrap_or(LINES) {
        limit @ 1..=MAX_LINES => limit,
        other => {
            return Err(ApiError::bad_request(format!("limit must be 1 to {MAX_LINES}, not {other}")));
        }
    };
    let mut lines = caller.services.upstreams.logs(&name).ok_or_else(|| unknown(&name))?;
    lines.drain(..lines.len().saturating_sub(limit));
    Ok(Json(UpstreamLogs { lines }))
}

fn unknown(name: &str) -> ApiError {
    let shown: String = name.chars().take(64).collect();
    ApiError::not_found(format!("there is no server {shown}")).hint("`plexus upstream list` shows them.")
}

/// Whether a file can have this name. The folder has further checks, such as that slugs are unique.
fn check_name(name: &str) -> Result<(), ApiError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if begins && name.len() <= 64 && name.bytes().all(plain) {
        return Ok(());
    }
    Err(ApiError::bad_request(
        "the name of a server must have 1 to 64 letters, digits, `.`, `_` or `-`, and begin with a letter or digit",
    ))
}

/// Accesses the folder of server files on the blocking pool, because a disk can be slow.
async fn in_folder<T: Send + 'static>(
    services: &Services,
    work: impl FnOnce(&Folder) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let upstreams = services.upstreams.clone();
    let done = tokio::task::spawn_blocking(move || work(upstreams.folder())).await;
    done.map_err(|error| ApiError::internal("accessing the server files", &error))
}

/// The server's file with secrets masked; `None` if it cannot be read.
async fn shown(services: &Services, name: &str) -> Result<Option<Value>, ApiError> {
    let name = name.to_owned();
    in_folder(services, move |folder| folder.document(&name).ok()).await
}

/// The configuration in the server's file; an error if the file is invalid.
async fn stored(services: &Services, name: &str) -> Result<ServerConfig, ApiError> {
    let entries = in_folder(services, Folder::read).await?;
    let entry = entries.into_iter().find(|entry| entry.name == name);
    match entry.ok_or_else(|| unknown(name))?.server {
        Ok(server) => Ok(server),
        Err(problems) => {
            let message = format!("the file of {name} is invalid: {}", joined(&problems));
            Err(ApiError::new(StatusCode::CONFLICT, ErrorCode::Conflict, message).hint("Fix the file first."))
        }
    }
}

/// Refuses an invalid configuration.
fn invalid(problems: &[Problem]) -> ApiError {
    ApiError::bad_request(joined(problems)).hint("See docs/upstreams.md for the format of a server's file.")
}

fn joined(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn refused_by_folder(error: FolderError) -> ApiError {
    match error {
        FolderError::Problems(problems) => invalid(&problems),
        FolderError::Name { .. } | FolderError::Import { .. } => ApiError::bad_request(error.to_string()),
        FolderError::NotFound { name, .. } => unknown(&name),
        FolderError::Exists { .. } => {
            ApiError::new(StatusCode::CONFLICT, ErrorCode::Conflict, error.to_string())
                .hint("Remove it first, edit its file, or choose another name.")
        }
        FolderError::Io(error) => ApiError::internal("changing the server files", &error),
    }
}
