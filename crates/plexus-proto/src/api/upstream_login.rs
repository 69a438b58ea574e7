//! `/api/v1/upstreams/{server}/login`: the hub is given access to a server by the person it belongs to.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;

/// Body of `POST /api/v1/upstreams/{server}/login`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginLoginParams {
    /// Where the browser is sent when the person has decided: a loopback address that whoever asks listens on.
    #[schema(max_length = 200, example = "http://127.0.0.1:49152/callback")]
    pub redirect_uri: String,
}

/// A login that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamLogin {
    /// Names this login when it is ended.
    pub id: String,
    /// What to open in a browser.
    pub url: String,
    /// The authorization server that the person is sent to.
    pub issuer: String,
    /// The login is forgotten then.
    pub expires_at: Timestamp,
}

/// Body of `POST /api/v1/upstreams/{server}/login/{id}`: what the browser brought back.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FinishLoginParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub state: Option<String>,
    /// Who the authorization server says that it is.
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

/// Nothing that is as good as a password for a moment.
impl fmt::Debug for FinishLoginParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinishLoginParams")
            .field("code", &self.code.is_some())
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

/// A server that the hub has no access to any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamLogout {
    pub name: String,
    /// Whether there was a login to forget.
    pub forgotten: bool,
    /// Whether the authorization server was told, and took it back.
    pub revoked: bool,
    /// Why it was not, and what to do about it.
    #[schema(required)]
    pub remark: Option<String>,
}
