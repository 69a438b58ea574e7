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
    /// The profile to show the cost for; absent: that of the requesting token. For admins, and for tokens of the
    /// profile.
    #[param(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    profile: Option<String>,
}

/// Show the context cost of tools
///
/// Number of tokens that each listed tool and each server adds to a model's context: for a tool its name,
/// description and arguments, for a server also its instructions for models. Counted with the vocabulary
/// `o200k_base`, which is exact for OpenAI's models since GPT-4o and an estimate for others.
#[utoipa::path(
    get,
    path = "/tools/cost",
    operation_id = "getToolsCost",
    tag = tag::TOOLS,
    params(CostParams),
    responses(
        (status = 200, description = "The cost.", body = ToolsCost),
        (status = 404, response = refusals::NotFound),
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
        // Callers without access may not learn whether a profile exists.
        Some(_) if !principal.is_admin() => {
            let message = "only admins may see the cost of another profile";
            return Err(ApiError::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, message)
                .hint("Leave out the profile to see the cost of your own token."));
        }
        Some(profile) => {
            let visible = registry.visible_through(principal, profile);
            visible.profiles().find(profile).map_err(ApiError::not_found)?;
            (Some(profile), visible.into())
        }
    };
    let instructions = services.upstreams.instructions(&visible);
    let cost = cost(&services.tokens, &visible, &instructions).await?;
    Ok(Json(ToolsCost { profile: profile.map(str::to_owned), ..cost }))
}
