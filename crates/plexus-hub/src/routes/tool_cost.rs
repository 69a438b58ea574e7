//! `/api/v1/tools/cost`.

use axum::Json;
use http::StatusCode;
use plexus_proto::ErrorCode;
use plexus_proto::api::ToolsCost;
use plexus_tools::cost;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::Params;
use super::{refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller};

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CostParams {
    /// What a token of this profile is shown; without it, what this token is. For admins, and for tokens of the profile.
    #[param(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    profile: Option<String>,
}

/// Show what tools cost
///
/// Tokens that each listed tool and each server adds to a model's context: of a tool its name, description and arguments,
/// of a server also what models are told about it. Counted with the vocabulary `o200k_base`, which is exact for OpenAI's
/// models since GPT-4o and an estimate for others.
#[utoipa::path(
    get,
    path = "/tools/cost",
    operation_id = "getToolsCost",
    tag = tag::TOOLS,
    params(CostParams),
    responses(
        (status = 200, description = "The cost.", body = ToolsCost),
        (status = 400, response = refusals::BadRequest),
        (status = 404, response = refusals::NotFound),
        refusals::Always,
    )
)]
pub(super) async fn show(
    caller: Caller,
    Params(params): Params<CostParams>,
) -> Result<Json<ToolsCost>, ApiError> {
    let Caller { services, principal } = &caller;
    let registry = services.dispatcher.registry();
    let own = principal.profile();
    let (profile, visible) = match params.profile.as_deref() {
        None => (own, registry.visible_to(principal)),
        Some(profile) if own == Some(profile) => (own, registry.visible_to(principal)),
        // Whether there is such a profile is not told to whom it is not for.
        Some(_) if !principal.is_admin() => {
            let message = "what another profile costs is for admins to ask";
            return Err(ApiError::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, message)
                .hint("Leave the profile out for what your own token is shown."));
        }
        Some(profile) => {
            let visible = registry.visible_through(principal, profile);
            visible.profiles().find(profile).map_err(ApiError::not_found)?;
            (Some(profile), visible.into())
        }
    };
    let said = services.upstreams.instructions(&visible);
    let cost = cost(&services.tokens, &visible, &said).await?;
    Ok(Json(ToolsCost { profile: profile.map(str::to_owned), ..cost }))
}
