//! The OAuth settings in a server's file.

use plexus_kit::ExposeSecret;
use serde_json::json;
use url::Url;

use crate::client::ClientError;
use crate::config::{Grant, HttpConfig, OauthConfig};

#[derive(Clone)]
pub(super) struct Terms {
    pub(super) http: HttpConfig,
    pub(super) url: Url,
    pub(super) oauth: OauthConfig,
    /// The file configures OAuth explicitly.
    pub(super) is_explicit: bool,
    /// Identifies the settings that a grant is bound to; a grant is not used under others.
    pub(super) binding: String,
}

impl Terms {
    pub(super) fn of(http: &HttpConfig) -> Result<Self, ClientError> {
        let url = Url::parse(http.url.expose_secret()).map_err(|error| {
            ClientError::Protocol(format!("the `url` of the server's file is invalid: {error}"))
        })?;
        let is_explicit = http.auth.oauth.is_some();
        let oauth = http.auth.oauth.clone().unwrap_or_default();
        let OauthConfig { scopes, client_id, client_metadata_url, authorization_server, .. } = &oauth;
        let binding = json!({
            "url": url.as_str(),
            "by_itself": oauth.grant == Grant::ClientCredentials,
            "scopes": scopes,
            "client_id": client_id,
            "client_metadata_url": client_metadata_url,
            "authorization_server": authorization_server,
        });
        Ok(Self { http: http.clone(), url, oauth, is_explicit, binding: binding.to_string() })
    }

    /// The hub has its own credentials, so no person is needed.
    pub(super) fn uses_client_credentials(&self) -> bool {
        self.oauth.grant == Grant::ClientCredentials
    }
}
