//! Servers from the files of other programs.

use std::time::Duration;

use axum::Json;
use axum::extract::Request;
use plexus_mcp::upstream::config::Skipped;
use plexus_proto::api::{ImportUpstreamsParams, ImportedUpstream, SkippedUpstream, UpstreamImport};
use serde_json::json;

use super::gate::{self, Program, Whence};
use super::record::recorded;
use super::refused_by_folder;
use crate::http::{ApiError, Caller};
use crate::routes::{refusals, tag};

/// Name of this operation in the audit.
const IMPORT: &str = "upstream_import";
/// Longest name of a file.
const MAX_FILE_NAME: usize = 255;

/// Import servers
///
/// From the file of another program, such as `{"mcpServers": …}`. Each server that can be taken is; of the others it is
/// said why not. Needs the scope `admin` and, for servers that are processes, what adding them needs.
#[utoipa::path(
    post,
    path = "/upstreams/-/import",
    operation_id = "importUpstreams",
    tag = tag::UPSTREAMS,
    request_body = ImportUpstreamsParams,
    responses(
        (status = 200, description = "What was done, or would be.", body = UpstreamImport),
        refusals::ForBody,
        refusals::Always,
    )
)]
pub(in crate::routes) async fn import(
    caller: Caller,
    whence: Whence,
    request: Request,
) -> Result<Json<UpstreamImport>, ApiError> {
    let params: ImportUpstreamsParams = caller.read_json(request, "an import of servers").await?;
    if !(1..=MAX_FILE_NAME).contains(&params.file_name.chars().count()) {
        return Err(ApiError::bad_request(format!("file_name must have 1 to {MAX_FILE_NAME} characters")));
    }
    let ImportUpstreamsParams { file_name, content, dry_run } = params;
    let asked = json!({ "file_name": file_name, "dry_run": dry_run });
    let imported = recorded(caller, IMPORT, asked, async move |services| {
        let folder = services.upstreams.folder();
        let mut plan = folder.import(&file_name, &content).map_err(refused_by_folder)?;
        let mut skipped: Vec<SkippedUpstream> = plan.skipped.drain(..).map(left_out).collect();
        plan.servers.retain(|planned| {
            let allowed = gate::may_refer(&whence, planned.has_references())
                .and_then(|()| gate::may_run(&services, &whence, Program::planned(planned)));
            skipped.extend(allowed.as_ref().err().map(|refused| SkippedUpstream {
                name: planned.name.clone(),
                reason: format!("{}. {}", refused.message, refused.hint.as_deref().unwrap_or_default()),
            }));
            allowed.is_ok()
        });
        if !dry_run {
            // What was taken since the plan was made.
            let failed = folder.apply(&plan).failed;
            plan.servers.retain(|planned| failed.iter().all(|one| one.name != planned.name));
            skipped.extend(failed.into_iter().map(left_out));
            // How each comes up is not part of the answer.
            services.upstreams.reload_within(Duration::ZERO).await;
        }
        let mut warnings = plan.warnings;
        warnings.extend(plan.servers.iter().flat_map(|planned| planned.warnings.iter().cloned()));
        let added = plan.servers.iter().map(|planned| ImportedUpstream {
            name: planned.name.clone(),
            file: planned.file.display().to_string(),
            document: planned.shown(),
        });
        let import = UpstreamImport { dry_run, added: added.collect(), skipped, warnings };
        let added: Vec<&str> = import.added.iter().map(|one| one.name.as_str()).collect();
        let skipped: Vec<&str> = import.skipped.iter().map(|one| one.name.as_str()).collect();
        Ok((json!({ "dry_run": dry_run, "added": added, "skipped": skipped }), import))
    });
    Ok(Json(imported.await?))
}

fn left_out(skipped: Skipped) -> SkippedUpstream {
    SkippedUpstream { name: skipped.name, reason: skipped.why }
}
