//! `/api/v1/upstreams/{server}/login`: OAuth authorization of the hub for a server, by the account's owner.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;

/// Body of `POST /api/v1/upstreams/{server}/login`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginLoginParams {
    /// Where the browser is redirected after the decision: a loopback address that the requesting program
    /// listens on.
    #[schema(max_length = 200, example = "http://127.0.0.1:49152/callback")]
    pub redirect_uri: String,
}

/// A login that awaits a person's decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamLogin {
    /// Identifies this login when it is completed.
    pub id: String,
    /// The URL to open in a browser.
    pub url: String,
    /// The authorization server that shows the login.
    pub issuer: String,
    /// When the login expires.
    pub expires_at: Timestamp,
}

/// Body of `POST /api/v1/upstreams/{server}/login/{id}`: the parameters of the redirect.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FinishLoginParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub state: Option<String>,
    /// The issuer identifier that the authorization server reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub iss: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub error_description: Option<String>,
}

/// Omits the code and the state, which are short-lived secrets.
impl fmt::Debug for FinishLoginParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinishLoginParams")
            .field("code", &self.code.is_some())
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

/// A server that the hub can no longer access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamLogout {
    pub name: String,
    /// Whether there was a login to delete.
    pub forgotten: bool,
    /// Whether the authorization server confirmed the revocation.
    pub revoked: bool,
    /// Why it was not revoked, and how to do so.
    #[schema(required)]
    pub remark: Option<String>,
}
