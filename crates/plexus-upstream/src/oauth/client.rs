//! The OAuth client identity of the hub.
//!
//! A client metadata document has priority if one is configured and the authorization server supports it,
//! then a client that was registered by hand. Otherwise the hub registers itself (RFC 7591), again for each
//! login, because the redirect URI differs each time.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::HeaderValue;
use plexus_kit::{ExposeSecret, Secret};
use plexus_mcp::http_client::origin_of;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use super::discovery::Authority;
use super::http::OauthHttp;
use super::redaction::SentSecrets;
use super::terms::Terms;
use super::{LoginError, quoted};
use crate::config::OauthConfig;

const NAME: &str = "Plexus";

/// How a client authenticates at the authorization server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Method {
    /// It has no secret.
    None,
    ClientSecretBasic,
    ClientSecretPost,
}

impl Method {
    const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
        }
    }
}

#[derive(Clone)]
pub(super) struct Client {
    pub(super) id: String,
    /// None for a configured client, whose secret is in the file.
    pub(super) secret: Option<Secret>,
    pub(super) method: Method,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("method", &self.method).finish_non_exhaustive()
    }
}

impl Client {
    /// The client to log in as. `redirect` is the URI that the browser is redirected to.
    pub(super) async fn choose(
        oauth_http: &OauthHttp,
        terms: &Terms,
        authority: &Authority,
        redirect: &str,
    ) -> Result<Self, LoginError> {
        match (&terms.oauth.client_metadata_url, &terms.oauth.client_id) {
            (Some(document), _) if authority.reads_documents => {
                Ok(Self { id: document.clone(), secret: None, method: Method::None })
            }
            (_, Some(_)) => Self::configured(&terms.oauth, authority),
            (_, None) => Self::register(oauth_http, authority, redirect).await,
        }
    }

    /// The client that the file names.
    pub(super) fn configured(oauth: &OauthConfig, authority: &Authority) -> Result<Self, LoginError> {
        let id = oauth
            .client_id
            .clone()
            .ok_or_else(|| LoginError::Unsuitable("the server's file has no `auth.client_id`".to_owned()))?;
        let method = match oauth.client_secret {
            None => Method::None,
            Some(_) => authority.secret_method(),
        };
        // The secret is read from the file each time, because it may be replaced there.
        Ok(Self { id, secret: None, method })
    }

    async fn register(
        oauth_http: &OauthHttp,
        authority: &Authority,
        redirect: &str,
    ) -> Result<Self, LoginError> {
        let issuer = quoted(&authority.issuer);
        let Some(endpoint) = &authority.registration_endpoint else {
            return Err(LoginError::Unsuitable(format!(
                "{issuer} does not support dynamic client registration: register the hub there with the redirect URI \
                 http://127.0.0.1/callback, and write its `client_id` into `auth` of the server's file"
            )));
        };
        let offered = authority.auth_methods.as_ref();
        let takes_none = offered.is_none_or(|methods| methods.iter().any(|method| method == "none"));
        let method = if takes_none { Method::None } else { authority.secret_method() };
        let document = json!({
            "client_name": NAME,
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method.as_str(),
            "application_type": "native",
        });
        let answer = oauth_http.submit_json(endpoint, &document).await?;
        let body = answer.body.unwrap_or_default();
        if answer.status.is_server_error() {
            return Err(LoginError::Unreachable(format!(
                "{} answers {}",
                origin_of(endpoint),
                answer.status
            )));
        }
        if !answer.status.is_success() {
            return Err(LoginError::Refused(format!(
                "{issuer} refused to register the hub ({}){}",
                answer.status,
                super::token::error_text(&body, &SentSecrets::default())
            )));
        }
        Self::registered(&body, method).ok_or_else(|| {
            LoginError::Refused(format!("{issuer} registered the hub but returned no `client_id`"))
        })
    }

    fn registered(body: &Value, requested: Method) -> Option<Self> {
        let text = |name: &str| body[name].as_str().filter(|text| !text.is_empty());
        let id = text("client_id")?.to_owned();
        let secret = text("client_secret").map(Secret::from);
        let method = match (text("token_endpoint_auth_method"), &secret) {
            (_, None) => Method::None,
            (Some("client_secret_post"), _) => Method::ClientSecretPost,
            (Some("none"), _) => Method::None,
            (Some(_), _) => Method::ClientSecretBasic,
            // A secret that was not requested is meant to be used.
            (None, Some(_)) if requested == Method::None => Method::ClientSecretBasic,
            (None, Some(_)) => requested,
        };
        Some(Self { id, secret, method })
    }

    /// The registered secret, or the one in the file.
    pub(super) fn secret<'a>(&'a self, oauth: &'a OauthConfig) -> Option<&'a Secret> {
        self.secret.as_ref().or(oauth.client_secret.as_ref())
    }

    /// Adds the client authentication to a form; returns a header if the method requires one.
    pub(super) fn sign(
        &self,
        oauth: &OauthConfig,
        form: &mut form_urlencoded::Serializer<'_, String>,
    ) -> Option<HeaderValue> {
        let (Some(secret), true) = (self.secret(oauth), self.method != Method::None) else {
            form.append_pair("client_id", &self.id);
            return None;
        };
        let secret = secret.expose_secret();
        if self.method == Method::ClientSecretPost {
            form.append_pair("client_id", &self.id).append_pair("client_secret", secret);
            return None;
        }
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = STANDARD.encode(format!("{}:{}", encoded(&self.id), encoded(secret)));
        let mut header = HeaderValue::from_str(&format!("Basic {pair}")).ok()?;
        header.set_sensitive(true);
        Some(header)
    }
}

impl Authority {
    /// How a client with a secret authenticates here.
    fn secret_method(&self) -> Method {
        let takes = |name: &str| {
            self.auth_methods.as_ref().is_some_and(|methods| methods.iter().any(|method| method == name))
        };
        match takes("client_secret_post") && !takes("client_secret_basic") {
            true => Method::ClientSecretPost,
            // The default of the specification.
            false => Method::ClientSecretBasic,
        }
    }
}

/// Checks that a redirect URI leads to this machine, to a port on which the login command listens.
pub(super) fn check_redirect(redirect: &str, port: Option<u16>) -> Result<(), LoginError> {
    let wrong = |why: &str| Err(LoginError::Unsuitable(format!("the redirect URI {why}")));
    let Ok(url) = Url::parse(redirect) else { return wrong("is not a URL") };
    let plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    let here = url.host_str().is_some_and(|host| matches!(host, "127.0.0.1" | "[::1]" | "localhost"));
    if url.scheme() != "http" || !here || !plain || redirect.len() > 200 {
        return wrong("must be http://127.0.0.1:PORT/PATH");
    }
    match port {
        Some(port) if url.port() != Some(port) => {
            wrong(&format!("must use the port {port}, the `auth.redirect_port` of the server's file"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
