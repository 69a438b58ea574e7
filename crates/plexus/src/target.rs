//! Selects the hub that a command talks to, and the token for it.
//!
//! The local admin token permits everything, so it never leaves this machine. It is sent only to loopback addresses,
//! and to the address of this machine that the hub on the same data folder has published. For any other hub, the user
//! provides a token.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plexus_bridge::Grant;
use plexus_kit::{Environment, ExposeSecret, Secret, config, env, private_file};
use reqwest::Url;

use crate::cli::GlobalArgs;
use crate::failure::{Exit, Failure};
use crate::hub_file::{HubFile, Occupant};

/// A hub, and the credential for it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) credential: Credential,
    /// Whether the hub is on this machine. If so, no proxy and no name service is used.
    pub(crate) is_local: bool,
    /// SHA-256 of the only accepted certificate: that of this machine's hub, which does not have to match its
    /// address.
    pub(crate) certificate: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) enum Credential {
    /// A token from the environment, or of an agent.
    Given {
        token: Secret,
        /// Whether the admin token of this machine's hub would be sent if this token was not set.
        has_admin_token: bool,
    },
    /// The admin token of this machine's hub.
    Local(Secret),
    /// The reason why there is no admin token for a hub on this machine. Most likely the hub never ran, so the
    /// request is sent without a token: an error about the unreachable hub is more helpful.
    Missing(String),
}

impl Target {
    /// The subject of the token. It is not verified, and only distinguishes the files of different token holders.
    pub(crate) fn subject(&self) -> String {
        #[derive(serde::Deserialize)]
        struct Claims {
            sub: String,
        }
        let Credential::Given { token, .. } = &self.credential else { return "admin:local".to_owned() };
        let claims = token.expose_secret().split('.').nth(1);
        let claims = claims.and_then(|claims| URL_SAFE_NO_PAD.decode(claims).ok());
        let claims = claims.and_then(|claims| serde_json::from_slice::<Claims>(&claims).ok());
        claims.map_or_else(|| "unknown".to_owned(), |claims| claims.sub)
    }

    /// The same hub, with another token.
    pub(crate) fn with_token(&self, token: Secret) -> Self {
        Self { credential: Credential::Given { token, has_admin_token: false }, ..self.clone() }
    }

    /// The hub that an agent on this machine is connected to, with the agent's token.
    pub(crate) fn of_grant(
        grant: &Grant,
        global: &GlobalArgs,
        environment: &Environment,
    ) -> anyhow::Result<Self> {
        if let Some(hub) = &grant.hub {
            let url = parse_url(hub, "the URL of the agent's hub")?;
            if !is_loopback(&url) {
                let credential = Credential::Given { token: grant.token(), has_admin_token: false };
                return Ok(Self { url, credential, is_local: false, certificate: None });
            }
        }
        Ok(Self::local_admin(grant.hub.clone(), global, environment)?.with_token(grant.token()))
    }

    /// The hub on this machine with its admin token. `PLEXUS_HUB` and `PLEXUS_TOKEN` are ignored, because the shell
    /// that an agent was started from can belong to another hub or user.
    pub(crate) fn local_admin(
        hub: Option<String>,
        global: &GlobalArgs,
        environment: &Environment,
    ) -> anyhow::Result<Self> {
        let ignored = [env::HUB.name, env::TOKEN.name];
        let remaining = environment.all().filter(|(name, _)| !ignored.contains(name));
        let remaining: Environment =
            remaining.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self::resolve(&GlobalArgs { hub, ..global.clone() }, &remaining)
    }

    /// The hub and the credential that the flags, the environment and the data folder select.
    pub(crate) fn resolve(global: &GlobalArgs, environment: &Environment) -> anyhow::Result<Self> {
        let data_dir = data_dir(global, environment);
        let data_dir = data_dir.as_deref();
        let explicit = explicit_hub(global, environment)?;
        let is_named = explicit.is_some();
        let (url, hub_file) = match explicit {
            Some(url) => (url, None),
            None => match data_dir.map(HubFile::read).transpose()?.flatten() {
                Some(hub_file) => (hub_file.url.clone(), Some(hub_file)),
                None => {
                    (parse_url(&format!("http://{}", config::DEFAULT_LISTEN), "the default address")?, None)
                }
            },
        };
        let is_local = is_loopback(&url) || hub_file.as_ref().is_some_and(HubFile::has_local_address);
        let certificate = match (is_local && url.scheme() == "https", data_dir) {
            (true, Some(data_dir)) => HubFile::read(data_dir)?
                .filter(|hub_file| is_same_hub(&hub_file.url, &url))
                .and_then(|hub_file| hub_file.certificate),
            _ => None,
        };
        let local = match is_local {
            true => local_credential(&url, data_dir).map(|credential| match (&credential, data_dir) {
                (Credential::Local(_), Some(folder))
                    if !is_named && has_stopped(folder, hub_file.as_ref()) =>
                {
                    Credential::Missing(format!("no hub runs on the data folder {}", folder.display()))
                }
                _ => credential,
            }),
            false => Err(no_token(&url).into()),
        };
        let credential = match environment.get(env::TOKEN) {
            Some(token) => Credential::Given {
                token: Secret::from(token.trim()),
                has_admin_token: matches!(local, Ok(Credential::Local(_))),
            },
            None => local?,
        };
        Ok(Self { url, credential, is_local, certificate })
    }
}

/// Whether the folder's admin token must not be sent, because another server may use the address: a killed hub leaves its file
/// behind, and the file in a copy of the folder names the hub of the original.
fn has_stopped(folder: &Path, hub_file: Option<&HubFile>) -> bool {
    match Occupant::of(folder) {
        Ok(Occupant::None) => true,
        Ok(Occupant::Unready(_)) => hub_file.is_some_and(|hub| !is_loopback(&hub.url) && !hub.is_alive()),
        Ok(Occupant::Hub(_)) | Err(_) => false,
    }
}

/// The data folder of this machine's hub: from the flag, the variable or the default.
pub(crate) fn data_dir(global: &GlobalArgs, environment: &Environment) -> Option<PathBuf> {
    global
        .data_dir
        .clone()
        .or_else(|| environment.get(env::DATA_DIR).map(PathBuf::from))
        .or_else(|| config::default_data_dir(environment))
}

/// The text that names the hub, and where it is from. The command line wins over the variable: `--data-dir` alone means the hub
/// that runs on that folder.
pub(crate) fn hub_text<'a>(
    global: &'a GlobalArgs,
    environment: &'a Environment,
) -> Option<(&'a str, &'static str)> {
    match (&global.hub, &global.data_dir) {
        (Some(text), _) => Some((text, "--hub")),
        (None, Some(_)) => None,
        (None, None) => environment.get(env::HUB).map(|text| (text, env::HUB.name)),
    }
}

/// The hub that the user named.
fn explicit_hub(global: &GlobalArgs, environment: &Environment) -> anyhow::Result<Option<Url>> {
    hub_text(global, environment).map(|(text, source)| parse_url(text, source)).transpose()
}

/// Whether two addresses of this machine are the same hub. Only the port matters, because a host has several names.
pub(crate) fn is_same_hub(own: &Url, other: &Url) -> bool {
    own.port_or_known_default() == other.port_or_known_default()
}

/// Parses the URL of a hub. `source` names its origin in errors.
pub(crate) fn parse_url(text: &str, source: &str) -> anyhow::Result<Url> {
    // Errors do not quote the text, because the URL may contain a password.
    let invalid = |what: &str| {
        Failure::new(Exit::Usage, format!("{source}: {what}"))
            .hint("give a URL such as http://127.0.0.1:7420")
    };
    // An address without a scheme means http, and the URL of the MCP endpoint means its hub.
    let text = text.trim();
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let text = text.trim_end_matches('/').trim_end_matches("/v1").trim_end_matches("/mcp");
    let url = Url::parse(text).map_err(|e| invalid(&format!("not a URL: {e}")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(invalid("not an http:// or https:// URL").into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("the URL must not contain a user name or password").into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("the URL must not contain a query or a fragment").into());
    }
    Ok(url)
}

/// Whether the host is a loopback address or `localhost`. No name is resolved.
pub(crate) fn is_loopback(url: &Url) -> bool {
    url.host_str() == Some("localhost") || ip_address(url).is_some_and(|address| address.is_loopback())
}

/// The host of the URL. None if it is a name.
pub(crate) fn ip_address(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// The error for a hub on another machine without a token.
fn no_token(url: &Url) -> Failure {
    let variable = env::TOKEN.name;
    let message =
        format!("no token for the hub at {}: {variable} is not set", url.as_str().trim_end_matches('/'));
    let hint = format!(
        "set {variable} to a token created there with `plexus token create`; the admin token of this machine's hub \
         is never sent to another machine"
    );
    Failure::new(Exit::Denied, message).hint(hint)
}

/// The credential for a hub on this machine, unless the user provides a token.
fn local_credential(url: &Url, data_dir: Option<&Path>) -> anyhow::Result<Credential> {
    let variable = env::TOKEN.name;
    let Some(data_dir) = data_dir else {
        return Ok(Credential::Missing(format!("{variable} is not set and no data folder is known")));
    };
    if let Some(HubFile { url: own, .. }) = HubFile::read(data_dir)?
        && !is_same_hub(&own, url)
    {
        return Ok(Credential::Missing(format!(
            "{variable} is not set, and the admin token in {} is for the hub at {}",
            data_dir.display(),
            own.as_str().trim_end_matches('/'),
        )));
    }
    let path = data_dir.join("admin-token");
    let content = private_file::read(&path).map_err(|e| {
        Failure::new(Exit::Denied, format!("cannot use the local admin token: {e}"))
            .hint(format!("change its permissions as described, or set {variable} to another token"))
    })?;
    let Some(content) = content else {
        let reason = format!("{variable} is not set and {} does not exist", path.display());
        return Ok(Credential::Missing(reason));
    };
    let token = String::from_utf8(content).unwrap_or_default();
    match token.trim() {
        "" => Err(Failure::new(Exit::Denied, format!("{} does not contain a token", path.display()))
            .hint(format!("restart the hub on this data folder, or set {variable}"))
            .into()),
        token => Ok(Credential::Local(Secret::from(token))),
    }
}

#[cfg(test)]
mod tests;
