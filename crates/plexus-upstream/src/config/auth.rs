//! The `auth` part of a document: how the hub authenticates when a header is not enough.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

use plexus_kit::{ExposeSecret, Secret};
use plexus_mcp::http_client::names_loopback;
use plexus_mcp::tls::{KeyReaders, TlsConfig};
use url::Url;

use super::check::CheckContext;
use super::document::{Auth, Document, GrantName, Tls};
use super::problem::Findings;
use super::transport::absolute;

/// The field that all OAuth keys depend on.
const OAUTH_FIELD: &str = "auth.type";

/// Authentication of a connection besides its headers.
#[derive(Debug, Clone, Default)]
pub struct HttpAuth {
    /// The file requests OAuth. A server that requires OAuth can be logged in to without this setting.
    pub oauth: Option<OauthConfig>,
    pub tls: Option<TlsConfig>,
}

/// Who grants access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Grant {
    /// A person, in a browser.
    #[default]
    AuthorizationCode,
    /// Nobody interactively: the hub has its own credentials.
    ClientCredentials,
}

#[derive(Clone, Default)]
pub struct OauthConfig {
    pub grant: Grant,
    pub scopes: Vec<String>,
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub client_metadata_url: Option<String>,
    pub redirect_port: Option<u16>,
    pub authorization_server: Option<String>,
}

/// Omits every value that may hold a resolved credential.
impl fmt::Debug for OauthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OauthConfig").field("grant", &self.grant).finish_non_exhaustive()
    }
}

impl HttpAuth {
    pub(super) fn hash_into(&self, hasher: &mut impl Hasher) {
        self.tls.hash(hasher);
        let Some(oauth) = &self.oauth else { return };
        (oauth.grant, &oauth.scopes, &oauth.client_id, &oauth.client_metadata_url).hash(hasher);
        (&oauth.authorization_server, oauth.client_secret.as_ref().map(|secret| secret.expose_secret()))
            .hash(hasher);
    }
}

pub(super) fn check(document: &Document, given: &CheckContext<'_>, findings: &mut Findings) -> HttpAuth {
    if !given.has("auth") {
        return HttpAuth::default();
    }
    let url = document.url.as_deref().and_then(|url| Url::parse(url).ok());
    let tls = tls(&document.auth.tls, url.as_ref(), given, findings);
    let oauth = oauth(document, url.as_ref(), findings);
    if oauth.is_none() && tls.is_none() && !findings.is_broken("auth") {
        findings.problem(
            "auth",
            "configures neither OAuth nor TLS",
            r#"write {"type": "oauth"}, or remove it"#,
        );
    }
    HttpAuth { oauth, tls }
}

fn oauth(document: &Document, url: Option<&Url>, findings: &mut Findings) -> Option<OauthConfig> {
    let auth = &document.auth;
    if auth.kind.is_none() {
        if uses_oauth(auth) && !findings.is_broken(OAUTH_FIELD) {
            findings.problem(OAUTH_FIELD, "is missing", r#"write "oauth""#);
        }
        return None;
    }
    if document.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
        let fix = "remove one of the two: a request carries only one of them";
        findings.problem("headers.Authorization", "cannot be combined with `auth`", fix);
    }
    if url.is_some_and(|url| !is_protected(url)) {
        let problem = "would send tokens over an unencrypted connection";
        findings.problem(OAUTH_FIELD, problem, "use https:// in `url`");
    }
    let grant = match auth.grant {
        Some(GrantName::ClientCredentials) => Grant::ClientCredentials,
        Some(GrantName::AuthorizationCode) | None => Grant::AuthorizationCode,
    };
    let text = |given: &Option<String>| given.as_deref().map(str::trim).map(str::to_owned);
    let (client_id, client_secret) = (text(&auth.client_id), text(&auth.client_secret));
    for (field, value) in [("auth.client_id", &client_id), ("auth.client_secret", &client_secret)] {
        if value.as_deref() == Some("") && !findings.is_broken(field) {
            findings.problem(field, "is empty", "write it, or leave it out");
        }
    }
    let needs = |missing: bool, field: &str, why: &str, findings: &mut Findings| {
        if missing && !findings.is_broken(field) {
            findings.problem(field, format!("is missing: {why}"), "write it");
        }
    };
    if grant == Grant::ClientCredentials {
        let why = "the grant client_credentials requires it";
        needs(client_id.is_none(), "auth.client_id", why, findings);
        needs(client_secret.is_none(), "auth.client_secret", why, findings);
    } else {
        let lone = client_id.is_none() && client_secret.is_some();
        needs(lone, "auth.client_id", "`auth.client_secret` requires it", findings);
    }
    for (index, scope) in auth.scopes.iter().enumerate() {
        let field = format!("auth.scopes[{index}]");
        let plain = scope.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e));
        if (scope.is_empty() || !plain) && !findings.is_broken(&field) {
            findings.problem(field, "is not a single scope name", "write each scope as a separate list item");
        }
    }
    let document_url = text(&auth.client_metadata_url);
    let named = |url: &str| Url::parse(url).is_ok_and(|url| url.scheme() == "https" && url.path() != "/");
    if document_url.as_deref().is_some_and(|url| !named(url))
        && !findings.is_broken("auth.client_metadata_url")
    {
        let fix = r#"write a URL such as "https://example.net/plexus.json""#;
        findings.problem("auth.client_metadata_url", "is not an https address with a path", fix);
    }
    let server = text(&auth.authorization_server);
    let usable = |url: &str| Url::parse(url).is_ok_and(|url| is_protected(&url));
    if server.as_deref().is_some_and(|url| !usable(url)) && !findings.is_broken("auth.authorization_server") {
        let fix = r#"write its address, such as "https://login.example.net""#;
        findings.problem("auth.authorization_server", "is not an https address", fix);
    }
    // Without a fixed server, the secret would go to whichever server the upstream names today.
    if client_secret.is_some() && server.is_none() && !findings.is_broken("auth.authorization_server") {
        let problem = "is missing: `auth.client_secret` is sent only to the server named here";
        let fix = r#"write the address where the hub is registered, such as "https://login.example.net""#;
        findings.problem("auth.authorization_server", problem, fix);
    }
    Some(OauthConfig {
        grant,
        scopes: auth.scopes.clone(),
        client_id,
        client_secret: client_secret.map(Secret::from),
        client_metadata_url: document_url,
        redirect_port: auth.redirect_port,
        authorization_server: server,
    })
}

/// Whether any key besides the certificates is set.
fn uses_oauth(auth: &Auth) -> bool {
    let Auth { kind: _, grant, scopes, client_id, client_secret, client_metadata_url, .. } = auth;
    grant.is_some()
        || !scopes.is_empty()
        || client_id.is_some()
        || client_secret.is_some()
        || client_metadata_url.is_some()
        || auth.redirect_port.is_some()
        || auth.authorization_server.is_some()
}

/// Whether traffic to the URL is encrypted or stays on this machine.
pub(crate) fn is_protected(url: &Url) -> bool {
    match url.scheme() {
        "https" => true,
        "http" => url.host().is_some_and(|host| names_loopback(&host)),
        _ => false,
    }
}

fn tls(tls: &Tls, url: Option<&Url>, given: &CheckContext<'_>, findings: &mut Findings) -> Option<TlsConfig> {
    let mut file = |name: &str, path: &Option<String>| -> Option<PathBuf> {
        let path = path.as_deref()?.trim();
        let field = format!("auth.tls.{name}");
        if findings.is_broken(&field) {
            return None;
        }
        if path.is_empty() {
            findings.problem(field, "is empty", "write the path of a file, or leave it out");
            return None;
        }
        let path = absolute(path, given.folder, given);
        if !path.is_file() {
            findings.warn(
                &field,
                "names a file that does not exist; the hub cannot connect to the server without it",
            );
        }
        if name == "client_key"
            && let Some(readers) = KeyReaders::of(&path)
        {
            findings.warn(&field, readers.to_string());
        }
        Some(path)
    };
    let cert = file("client_cert", &tls.client_cert);
    let key = file("client_key", &tls.client_key);
    let ca = file("ca", &tls.ca);
    let tls_files = [("client_cert", &tls.client_cert), ("client_key", &tls.client_key)];
    if let [(_, Some(_)), (missing, None)] | [(missing, None), (_, Some(_))] = tls_files {
        let field = format!("auth.tls.{missing}");
        findings.problem(field, "is missing", "write both the certificate and its key");
    }
    let identity = cert.zip(key);
    if identity.is_none() && ca.is_none() {
        return None;
    }
    if url.is_some_and(|url| url.scheme() != "https") {
        findings.problem("auth.tls", "requires https", "use https:// in `url`");
    }
    Some(TlsConfig { identity, ca })
}
