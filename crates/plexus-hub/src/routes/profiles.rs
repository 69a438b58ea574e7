//! `/api/v1/profiles`: lists and shows profiles.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use plexus_auth::profiles::{self, ProfileEntry, ProfileSource, RunSettings, ToolSelection};
use plexus_proto::api::{
    Page, Profile, ProfileDescription, ProfileDetail, ProfileProblem, ProfileRun, ProfileServer,
};
use plexus_proto::tool_name;
use plexus_tools::Visible;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::{self, Cursor, PageParams, Params, Segment};
use super::{refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller};

const SCOPE: &str = "read:profiles";
const CURSOR: Cursor = Cursor("profiles");

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show))
}

/// List profiles
///
/// Sorted by id. Includes unusable profiles with their errors. Needs the scope `read:profiles`.
#[utoipa::path(
    get,
    path = "/profiles",
    operation_id = "listProfiles",
    tag = tag::PROFILES,
    params(PageParams),
    responses((status = 200, description = "A page of profiles.", body = Page<Profile>))
)]
pub(super) async fn list(
    caller: Caller,
    Params(page): Params<PageParams>,
) -> Result<Json<Page<Profile>>, ApiError> {
    caller.require_scope(SCOPE)?;
    let limit = query::limit(page.limit)?;
    let after: String = CURSOR.read(page.cursor.as_deref())?.unwrap_or_default();
    let visible = caller.services.dispatcher.registry().visible_to(&caller.principal);
    let rest = visible.profiles().iter().filter(|(id, _)| *id > after.as_str());
    let one_more = usize::try_from(limit).unwrap_or_default() + 1;
    let items = rest.take(one_more).map(|(id, entry)| describe(id, entry, &visible)).collect();
    Ok(Json(CURSOR.page(items, limit, |profile: &Profile| profile.id.clone())))
}

/// Show a profile
///
/// Includes its prompts. Needs the scope `read:profiles`.
#[utoipa::path(
    get,
    path = "/profiles/{id}",
    operation_id = "getProfile",
    tag = tag::PROFILES,
    params(("id" = String, Path, description = "The profile.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "The profile.", body = ProfileDetail),
        (status = 404, response = refusals::NotFound),
    )
)]
pub(super) async fn show(caller: Caller, Segment(id): Segment) -> Result<Json<ProfileDetail>, ApiError> {
    caller.require_scope(SCOPE)?;
    let visible = caller.services.dispatcher.registry().visible_to(&caller.principal);
    let not_found =
        || ApiError::not_found("there is no such profile").hint("`plexus profile list` shows them.");
    let entry = visible.profiles().get(&id).ok_or_else(not_found)?;
    let profile = entry.profile.as_ref().ok();
    Ok(Json(ProfileDetail {
        profile: describe(&id, entry, &visible),
        system_prompt: profile.and_then(|profile| profile.system_prompt.clone()),
        subagent_system_prompt: profile.and_then(|profile| profile.subagent_system_prompt.clone()),
    }))
}

fn run_settings(run: &RunSettings) -> ProfileRun {
    let RunSettings { mcp, model, effort, approval_mode, allow_tools, system_prompt, skills, status_line } =
        run.clone();
    ProfileRun { mcp, model, effort, approval_mode, allow_tools, system_prompt, skills, status_line }
}

/// Tools and warnings are limited to what the caller can see: a profile's report reveals no other tool.
fn describe(id: &str, entry: &ProfileEntry, visible: &Visible) -> Profile {
    let file = match &entry.source {
        ProfileSource::Shipped => None,
        ProfileSource::File(path) => Some(path.display().to_string()),
    };
    let base = Profile {
        id: id.to_owned(),
        name: id.to_owned(),
        description: String::new(),
        full_description: ProfileDescription::default(),
        default: id == profiles::DEFAULT,
        file,
        usable: false,
        problems: vec![],
        warnings: vec![],
        enabled_tools: vec![],
        subagent_tools: vec![],
        mcp_servers: vec![],
        thin: false,
        pinned: vec![],
        llm_backend: None,
        model: vec![],
        temperature: None,
        max_iterations: None,
        run: BTreeMap::new(),
        node_id: None,
        planning_enabled: false,
        planning_mandatory: false,
    };
    let profile = match &entry.profile {
        Ok(profile) => profile,
        Err(problems) => {
            let problems = problems.iter().map(|problem| ProfileProblem {
                file: problem.file.display().to_string(),
                field: problem.field.clone(),
                message: problem.message.clone(),
            });
            return Profile { problems: problems.collect(), ..base };
        }
    };
    let candidates = visible.candidates();
    let ToolSelection { tools, listed, servers, warnings } = profile.shown(&candidates);
    let subagents = profile.subagent_view(&candidates);
    let list = |tools: BTreeSet<String>| tools.into_iter().collect();
    let full = profile.full_description.clone();
    Profile {
        name: profile.name.clone(),
        description: profile.description.clone(),
        full_description: ProfileDescription {
            specialization: full.specialization,
            when_to_use: full.when_to_use,
            key_tools: visible.visible_names(&full.key_tools),
        },
        usable: true,
        warnings: warnings.into_iter().chain(subagents.warnings).collect(),
        enabled_tools: list(tools),
        subagent_tools: list(subagents.tools),
        mcp_servers: servers
            .into_iter()
            .map(|(server, tools)| ProfileServer { server, tools: list(tools) })
            .collect(),
        thin: listed.is_some(),
        pinned: listed.map(pinned).unwrap_or_default(),
        llm_backend: profile.llm_backend.clone(),
        model: profile.models.clone(),
        temperature: profile.temperature,
        max_iterations: profile.max_iterations,
        run: profile.run.iter().map(|(agent, run)| (agent.clone(), run_settings(run))).collect(),
        node_id: profile.node_id.clone(),
        planning_enabled: profile.planning_enabled,
        planning_mandatory: profile.planning_mandatory,
        ..base
    }
}

/// The pinned tools among those that a thin profile lists.
fn pinned(mut listed: BTreeSet<String>) -> Vec<String> {
    listed.retain(|name| ![tool_name::SEARCH, tool_name::CALL].contains(&name.as_str()));
    listed.into_iter().collect()
}
