//! Importing servers from the files of other programs.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, Request};
use http::request::Parts;
use plexus_proto::api::{ImportUpstreamsParams, ImportedUpstream, SkippedUpstream, UpstreamImport};
use plexus_upstream::config::{ImportRefusal, PlannedServer, SkippedServer, ThisHub};
use serde_json::json;

use super::gate::{self, Program, RequestOrigin};
use super::record::recorded;
use super::{in_folder, refused_by_folder};
use crate::App;
use crate::http::{ApiError, Caller};
use crate::routes::tag;
use crate::services::Services;

/// Name of this operation in the audit log.
const IMPORT: &str = "upstream_import";
/// Maximum length of a file name, in characters.
const MAX_FILE_NAME: usize = 255;

/// Addresses at which the hub is reached, as agents may have them in their files.
pub(in crate::routes) struct Addresses(Vec<String>);

impl FromRequestParts<App> for Addresses {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(Self(vec![app.public_url(), app.local_url()]))
    }
}

/// Import servers
///
/// From the file of another program, such as `{"mcpServers": …}`, as JSON or TOML. Servers that cannot be imported are listed with
/// the reason. Needs the scope `admin` and, for servers that are processes, the same conditions as adding them.
#[utoipa::path(
    post,
    path = "/upstreams/-/import",
    operation_id = "importUpstreams",
    tag = tag::UPSTREAMS,
    request_body = ImportUpstreamsParams,
    responses((status = 200, description = "The imported and the skipped servers.", body = UpstreamImport))
)]
pub(in crate::routes) async fn import(
    caller: Caller,
    origin: RequestOrigin,
    Addresses(urls): Addresses,
    request: Request,
) -> Result<Json<UpstreamImport>, ApiError> {
    let params: ImportUpstreamsParams = caller.read_json(request, "an import of servers").await?;
    if !(1..=MAX_FILE_NAME).contains(&params.file_name.chars().count()) {
        return Err(ApiError::bad_request(format!("file_name must have 1 to {MAX_FILE_NAME} characters")));
    }
    let ImportUpstreamsParams { file_name, content, dry_run } = params;
    let audit_detail = json!({ "file_name": file_name, "dry_run": dry_run });
    let imported = recorded(caller, IMPORT, audit_detail, async move |services| {
        let inside = services.clone();
        // Of a file from another machine, paths do not say which data folder is meant.
        let data_dir = (origin == RequestOrigin::Local).then(|| services.config.load().data_dir.clone());
        let hub = ThisHub { urls, data_dir };
        let planned = in_folder(&services, move |folder| {
            let admit = |planned: &PlannedServer| admitted(&inside, &origin, planned);
            let mut plan = folder.import_admitted(&file_name, &content, &hub, admit)?;
            if !dry_run {
                // Names that were taken after the plan was made.
                let failed = folder.apply(&plan).failed;
                plan.servers.retain(|planned| failed.iter().all(|one| one.name != planned.name));
                plan.skipped.extend(failed);
            }
            Ok(plan)
        });
        let plan = planned.await?.map_err(refused_by_folder)?;
        if !dry_run {
            // The answer does not wait for the servers to start.
            services.upstreams.reload_within(Duration::ZERO).await;
        }
        let skipped = plan.skipped.into_iter().map(left_out).collect();
        let mut warnings = plan.warnings;
        warnings.extend(plan.servers.iter().flat_map(|planned| planned.warnings.iter().cloned()));
        let added = plan.servers.iter().map(|planned| ImportedUpstream {
            name: planned.name.clone(),
            file: planned.file.display().to_string(),
            document: planned.shown(),
        });
        let import = UpstreamImport { dry_run, added: added.collect(), skipped, warnings, notes: plan.notes };
        let added: Vec<&str> = import.added.iter().map(|one| one.name.as_str()).collect();
        let skipped: Vec<&str> = import.skipped.iter().map(|one| one.name.as_str()).collect();
        Ok((json!({ "dry_run": dry_run, "added": added, "skipped": skipped }), import))
    });
    Ok(Json(imported.await?))
}

/// Whether the request may add this server; otherwise the reason and the remedy.
fn admitted(
    services: &Services,
    origin: &RequestOrigin,
    planned: &PlannedServer,
) -> Result<(), ImportRefusal> {
    let admitted = gate::check_references(origin, planned.has_references())
        .and_then(|()| gate::check_network(services, origin, planned.inward()))
        .and_then(|()| gate::check_command(services, origin, Program::planned(planned)));
    admitted.map_err(|refused| ImportRefusal {
        command: gate::missing_command(&refused).map(str::to_owned),
        why: format!("{}. {}", refused.message, refused.hint.unwrap_or_default()),
        exists: false,
    })
}

fn left_out(skipped: SkippedServer) -> SkippedUpstream {
    let SkippedServer { name, why, command, exists } = skipped;
    SkippedUpstream { name, reason: why, command, exists }
}
