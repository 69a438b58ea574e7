//! Finds the authorization server of a server and its endpoints (RFC 9728, RFC 8414, OpenID Connect
//! Discovery).
//!
//! A metadata document is only accepted if it names the subject that it was requested for. Otherwise a server
//! could make the hub request access to another server, or send one authorization server's codes to a second
//! one.

use plexus_mcp::http_client::{names_loopback, origin_of};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::challenge::Challenge;
use super::http::OauthHttp;
use super::terms::Terms;
use super::{LoginError, quoted};
use crate::config::is_protected;

/// Further authorization servers are ignored.
const MAX_SERVERS: usize = 16;

/// A server as the protected resource of OAuth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resource {
    /// The resource identifier to use in token requests.
    pub(super) id: String,
    /// The authorization server, as the server names it.
    pub(super) issuer: String,
    pub(super) scopes: Vec<String>,
}

#[derive(Deserialize)]
struct ResourceDocument {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// An authorization server.
#[derive(Debug, Clone)]
pub(super) struct Authority {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<Url>,
    pub(super) token_endpoint: Url,
    pub(super) registration_endpoint: Option<Url>,
    pub(super) revocation_endpoint: Option<Url>,
    pub(super) scopes: Vec<String>,
    pub(super) auth_methods: Option<Vec<String>>,
    /// It supports PKCE with S256, which the hub requires.
    pub(super) proves_possession: bool,
    /// Its authorization responses contain `iss`.
    pub(super) names_itself: bool,
    /// It supports client metadata documents.
    pub(super) reads_documents: bool,
}

#[derive(Deserialize)]
struct AuthorityDocument {
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    registration_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    client_id_metadata_document_supported: bool,
}

/// The resource according to its own metadata, or to its file.
pub(super) async fn resource(
    oauth_http: &OauthHttp,
    terms: &Terms,
    challenge: &Challenge,
) -> Result<Resource, LoginError> {
    let chosen = terms.oauth.authorization_server.clone();
    for url in resource_metadata_urls(&terms.url, challenge)? {
        let Some(document) = oauth_http.document(&url).await? else { continue };
        let document: ResourceDocument = read(&url, document)?;
        if !covers(&document.resource, &terms.url) {
            return Err(LoginError::Refused(format!(
                "{} describes a different server: {}",
                origin_of(&url),
                quoted(&document.resource)
            )));
        }
        let mut servers = document.authorization_servers;
        servers.truncate(MAX_SERVERS);
        let issuer = match (chosen, servers.is_empty()) {
            (Some(chosen), false) if !servers.contains(&chosen) => {
                return Err(LoginError::Refused(format!(
                    "{} does not list the `authorization_server` of the server's file, only {}",
                    origin_of(&terms.url),
                    quoted(&servers.join(", "))
                )));
            }
            (Some(chosen), _) => chosen,
            (None, false) => servers.swap_remove(0),
            (None, true) => break,
        };
        return Ok(Resource { id: document.resource, issuer, scopes: document.scopes_supported });
    }
    // Servers of the first revision with OAuth are their own authorization servers and publish no resource
    // metadata.
    let issuer = terms.oauth.authorization_server.clone().unwrap_or_else(|| origin_of(&terms.url));
    Ok(Resource { id: canonical(&terms.url), issuer, scopes: vec![] })
}

/// The URLs of a server's metadata: the one that it names, otherwise the well-known ones.
fn resource_metadata_urls(url: &Url, challenge: &Challenge) -> Result<Vec<Url>, LoginError> {
    if let Some(named) = &challenge.resource_metadata {
        let named = Url::parse(named).map_err(|_| {
            let message = format!("{} names an invalid URL for its metadata", origin_of(url));
            LoginError::Refused(message)
        })?;
        return Ok(vec![named]);
    }
    let mut urls = vec![well_known(url, "oauth-protected-resource", url.path())];
    if !matches!(url.path(), "" | "/") {
        urls.push(well_known(url, "oauth-protected-resource", ""));
    }
    Ok(urls)
}

/// A URL of the same server below `/.well-known/`.
fn well_known(url: &Url, name: &str, path: &str) -> Url {
    let mut metadata_url = url.clone();
    metadata_url.set_query(None);
    metadata_url.set_fragment(None);
    metadata_url.set_path(&format!("/.well-known/{name}{}", path.trim_end_matches('/')));
    metadata_url
}

/// The URL of a server as its resource identifier.
fn canonical(url: &Url) -> String {
    let mut name = url.clone();
    name.set_fragment(None);
    let text = name.to_string();
    if url.path() == "/" && url.query().is_none() { text.trim_end_matches('/').to_owned() } else { text }
}

/// Whether the resource identifier is the server's URL or a parent of it.
fn covers(resource: &str, url: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let path = resource.path().trim_end_matches('/');
    let below = url.path().strip_prefix(path);
    resource.origin() == url.origin()
        && resource.fragment().is_none()
        && resource.query().is_none_or(|query| url.query() == Some(query))
        && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The authorization server with this issuer.
pub(super) async fn authority(oauth_http: &OauthHttp, issuer: &str) -> Result<Authority, LoginError> {
    let url = Url::parse(issuer).ok().filter(is_protected).ok_or_else(|| {
        let named = quoted(issuer);
        LoginError::Refused(format!("the authorization server {named:?} has no https URL"))
    })?;
    for url in authority_metadata_urls(&url) {
        let Some(document) = oauth_http.document(&url).await? else { continue };
        let document: AuthorityDocument = read(&url, document)?;
        if document.issuer != issuer {
            return Err(LoginError::Refused(format!(
                "{} names the issuer {}, but {} was expected",
                origin_of(&url),
                quoted(&document.issuer),
                quoted(issuer)
            )));
        }
        return usable(document, &url);
    }
    let origin = origin_of(&url);
    Err(LoginError::Refused(format!(
        "{origin} should be the authorization server but publishes no metadata; if a different server is, write it as \
         `auth.authorization_server` in the server's file"
    )))
}

/// The URLs of an authorization server's metadata, in the order of the specification.
fn authority_metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut urls = vec![
        well_known(issuer, "oauth-authorization-server", path),
        well_known(issuer, "openid-configuration", path),
    ];
    if !path.is_empty() {
        let mut appended = issuer.clone();
        appended.set_query(None);
        appended.set_path(&format!("{path}/.well-known/openid-configuration"));
        urls.push(appended);
    }
    urls
}

fn usable(document: AuthorityDocument, metadata_url: &Url) -> Result<Authority, LoginError> {
    // Only an authorization server on this machine may send the browser or the hub to this machine.
    let local = |url: &Url| url.host().is_some_and(|host| names_loopback(&host));
    let is_local = Url::parse(&document.issuer).is_ok_and(|issuer| local(&issuer));
    let address = |text: Option<String>| -> Result<Option<Url>, LoginError> {
        let Some(text) = text else { return Ok(None) };
        let url = Url::parse(&text).ok().filter(|url| is_protected(url) && (is_local || !local(url)));
        url.map(Some).ok_or_else(|| {
            let (origin, text) = (origin_of(metadata_url), quoted(&text));
            LoginError::Refused(format!(
                "{origin} names a URL that is invalid, unencrypted or on this machine: {text}"
            ))
        })
    };
    let token_endpoint = address(document.token_endpoint)?
        .ok_or_else(|| LoginError::Refused(format!("{} names no token endpoint", origin_of(metadata_url))))?;
    Ok(Authority {
        issuer: document.issuer,
        authorization_endpoint: address(document.authorization_endpoint)?,
        token_endpoint,
        registration_endpoint: address(document.registration_endpoint)?,
        revocation_endpoint: address(document.revocation_endpoint)?,
        scopes: document.scopes_supported,
        auth_methods: document.token_endpoint_auth_methods_supported,
        proves_possession: document.code_challenge_methods_supported.iter().any(|method| method == "S256"),
        names_itself: document.authorization_response_iss_parameter_supported,
        reads_documents: document.client_id_metadata_document_supported,
    })
}

fn read<T: for<'d> Deserialize<'d>>(url: &Url, document: Value) -> Result<T, LoginError> {
    serde_json::from_value(document).map_err(|error| {
        // The error may contain words of the document.
        let (origin, error) = (origin_of(url), quoted(&error.to_string()));
        LoginError::Refused(format!("the metadata at {origin} is invalid: {error}"))
    })
}

#[cfg(test)]
mod tests;
