//! `/api/v1/upstreams`: the MCP servers behind the hub.
//!
//! Who may read them is a matter of scopes and profiles: who is no admin knows of those servers only whose
//! tools they see (`view`). Who may change them is told by `gate`, and every change and every refusal of one
//! is on record (`record`). `-` stands for all servers where one would be named: no
//! server can have that name.

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

use self::view::View;
use super::query::{self, Cursor, PageParams, Params, Segment};
use super::{refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller, Tagged};
use crate::services::Services;

const READ: &str = "read:upstreams";
const CURSOR: Cursor = Cursor("upstreams");
/// Lines of a log where no number is asked for.
const LINES: usize = 100;
/// Most lines of a log in one answer; the hub keeps no more than a ring of them.
const MAX_LINES: usize = 1_000;
/// Longest that an answer waits for a server, in seconds: whoever wants to wait longer asks again.
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
/// By name, each with its state. Needs the scope `read:upstreams`. Who is no admin sees those servers only whose tools
/// they see, with these tools.
#[utoipa::path(
    get,
    path = "/upstreams",
    operation_id = "listUpstreams",
    tag = tag::UPSTREAMS,
    params(
        PageParams,
        ("If-None-Match" = Option<String>, Header, nullable = false, description = "Tags of what the client has."),
    ),
    responses(
        (status = 200, description = "A page of servers.", body = Page<Upstream>,
            headers(("ETag" = String, description = "The tag of this content."))),
        (status = 304, description = "The client has it.",
            headers(("ETag" = String, description = "The tag of this content."))),
        (status = 400, response = refusals::BadRequest),
        refusals::Always,
    )
)]
pub(super) async fn list(
    caller: Caller,
    Params(page): Params<PageParams>,
    headers: HeaderMap,
) -> Result<Tagged, ApiError> {
    caller.needs(READ)?;
    let limit = query::limit(page.limit)?;
    let after: String = CURSOR.read(page.cursor.as_deref())?.unwrap_or_default();
    let one_more = usize::try_from(limit).unwrap_or_default() + 1;
    let view = View::of(&caller);
    let all = caller.services.upstreams.list().into_iter().filter_map(|upstream| view.show(upstream));
    let items = all.filter(|upstream| upstream.name > after).take(one_more).collect();
    let page: Page<Upstream> = CURSOR.page(items, limit, |upstream| upstream.name.clone());
    Tagged::json(&headers, &page)
}

/// Show a server
///
/// Its state. Needs the scope `read:upstreams`. Who is no admin must see one of its tools; an admin is also given its
/// file without what is secret, and what it wrote to its standard error when it failed.
#[utoipa::path(
    get,
    path = "/upstreams/{server}",
    operation_id = "getUpstream",
    tag = tag::UPSTREAMS,
    params(
        ("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$"),
        ("If-None-Match" = Option<String>, Header, nullable = false, description = "Tags of what the client has."),
    ),
    responses(
        (status = 200, description = "The server.", body = UpstreamDetail,
            headers(("ETag" = String, description = "The tag of this content."))),
        (status = 304, description = "The client has it.",
            headers(("ETag" = String, description = "The tag of this content."))),
        (status = 400, response = refusals::BadRequest),
        (status = 404, response = refusals::NotFound),
        refusals::Always,
    )
)]
pub(super) async fn show(
    caller: Caller,
    Segment(name): Segment,
    headers: HeaderMap,
) -> Result<Tagged, ApiError> {
    caller.needs(READ)?;
    let upstream = caller.services.upstreams.get(&name).and_then(|upstream| View::of(&caller).show(upstream));
    // A name that there is no server of never gets as far as the folder.
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
    /// Most lines to give, the newest.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
}

/// How long to wait for what a change starts.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitParams {
    /// Longest to wait for the server, in seconds; its state in the answer tells how far it is.
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

/// Show what a server wrote to its standard error
///
/// The newest lines, oldest first; a server over HTTP has none. Needs the scope `admin`: a server may write anything there.
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
        (status = 400, response = refusals::BadRequest),
        (status = 404, response = refusals::NotFound),
        refusals::Always,
    )
)]
pub(super) async fn logs(
    caller: Caller,
    Segment(name): Segment,
    Params(params): Params<LogParams>,
) -> Result<Json<UpstreamLogs>, ApiError> {
    caller.needs(Scope::ADMIN)?;
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

/// A name that a file can have. The folder looks at more, such as that no other server has its slug.
fn check_name(name: &str) -> Result<(), ApiError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if begins && name.len() <= 64 && name.bytes().all(plain) {
        return Ok(());
    }
    Err(ApiError::bad_request(
        "the name of a server has 1 to 64 letters, digits, `.`, `_` or `-`, and begins with a letter or digit",
    ))
}

/// Works on the folder of servers where it holds up no request: a disk can be slow.
async fn in_folder<T: Send + 'static>(
    services: &Services,
    work: impl FnOnce(&Folder) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let upstreams = services.upstreams.clone();
    let done = tokio::task::spawn_blocking(move || work(upstreams.folder())).await;
    done.map_err(|error| ApiError::internal("working on the files of servers", &error))
}

/// The file of a server as it may be shown; none where it cannot be read.
async fn shown(services: &Services, name: &str) -> Result<Option<Value>, ApiError> {
    let name = name.to_owned();
    in_folder(services, move |folder| folder.document(&name).ok()).await
}

/// What the file of a server says; one that is wrong says nothing.
async fn stored(services: &Services, name: &str) -> Result<ServerConfig, ApiError> {
    let entries = in_folder(services, Folder::read).await?;
    let entry = entries.into_iter().find(|entry| entry.name == name);
    match entry.ok_or_else(|| unknown(name))?.server {
        Ok(server) => Ok(server),
        Err(problems) => {
            let message = format!("the file of {name} is wrong: {}", joined(&problems));
            Err(ApiError::new(StatusCode::CONFLICT, ErrorCode::Conflict, message).hint("Put it right first."))
        }
    }
}

/// A configuration that no file may hold.
fn invalid(problems: &[Problem]) -> ApiError {
    ApiError::bad_request(joined(problems)).hint("docs/upstreams.md says what a server's file may hold.")
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
                .hint("Remove it first, edit its file, or take another name.")
        }
        FolderError::Io(error) => ApiError::internal("changing the files of servers", &error),
    }
}
