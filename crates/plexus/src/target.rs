//! Which hub a command talks to, and with which token.
//!
//! The local admin token opens everything, so it never leaves this machine: it is presented to a
//! loopback address, and to the address of this machine at which the hub of the same data folder
//! says it is. For any other hub the user names the token.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plexus_bridge::Grant;
use plexus_kit::{Environment, ExposeSecret, Secret, config, env, private_file};
use reqwest::Url;

use crate::cli::GlobalArgs;
use crate::failure::{Exit, Failure};
use crate::hub_file::HubFile;

/// A hub and what to present to it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) credential: Credential,
    /// It is on this machine: nothing on the way to it is asked for help.
    pub(crate) here: bool,
    /// SHA-256 of the one certificate that it may show: that of this machine's hub, which need not be for an address.
    pub(crate) certificate: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) enum Credential {
    /// From the environment.
    Given {
        token: Secret,
        /// Without it, the admin token of this machine's hub would be presented.
        admin_instead: bool,
    },
    /// The admin token of this machine's hub.
    Local(Secret),
    /// A hub on this machine whose admin token is not there, most likely because it never ran:
    /// whether it runs is the better thing to say first, so the request is made without.
    Missing(String),
}

impl Target {
    /// Whose the credential is, as far as it says so itself. Nothing is believed for it: it tells files of one holder from those
    /// of another.
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

    /// The same hub with another token.
    pub(crate) fn with(&self, token: Secret) -> Self {
        Self { credential: Credential::Given { token, admin_instead: false }, ..self.clone() }
    }

    /// The hub that an agent of this machine was connected to, and the agent's own token.
    pub(crate) fn of_grant(
        grant: &Grant,
        global: &GlobalArgs,
        environment: &Environment,
    ) -> anyhow::Result<Self> {
        if let Some(hub) = &grant.hub {
            let url = parse(hub, "the address that the agent was connected to")?;
            if !is_loopback(&url) {
                let credential = Credential::Given { token: grant.token(), admin_instead: false };
                return Ok(Self { url, credential, here: false, certificate: None });
            }
        }
        Ok(Self::maker_of(grant.hub.clone(), global, environment)?.with(grant.token()))
    }

    /// The same hub on this machine with its admin token, whatever the environment says: the shell that an agent was started from
    /// may speak for somebody else.
    pub(crate) fn maker_of(
        hub: Option<String>,
        global: &GlobalArgs,
        environment: &Environment,
    ) -> anyhow::Result<Self> {
        let others = [env::HUB.name, env::TOKEN.name];
        let own = environment.all().filter(|(name, _)| !others.contains(name));
        let own: Environment = own.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self::resolve(&GlobalArgs { hub, ..global.clone() }, &own)
    }

    pub(crate) fn resolve(global: &GlobalArgs, environment: &Environment) -> anyhow::Result<Self> {
        let data_dir = data_dir(global, environment);
        let data_dir = data_dir.as_deref();
        let (url, own) = match named_hub(global.hub.as_deref(), environment)? {
            Some(url) => (url, None),
            None => match data_dir.map(HubFile::read).transpose()?.flatten() {
                Some(own) => (own.url.clone(), Some(own)),
                None => (parse(&format!("http://{}", config::DEFAULT_LISTEN), "the default address")?, None),
            },
        };
        let here = is_loopback(&url) || own.as_ref().is_some_and(HubFile::is_here);
        let certificate = match (here && url.scheme() == "https", data_dir) {
            (true, Some(data_dir)) => HubFile::read(data_dir)?
                .filter(|own| same_hub(&own.url, &url))
                .and_then(|own| own.certificate),
            _ => None,
        };
        let local = match own.filter(|own| !is_loopback(&own.url) && !own.is_alive()) {
            // Its address may be another's by now.
            Some(gone) if here => {
                Ok(Credential::Missing(format!("the hub there (process {}) has ended", gone.pid)))
            }
            _ if here => local_credential(&url, data_dir),
            _ => Err(no_token(&url).into()),
        };
        let credential = match environment.get(env::TOKEN) {
            Some(token) => Credential::Given {
                token: Secret::from(token.trim()),
                admin_instead: matches!(local, Ok(Credential::Local(_))),
            },
            None => local?,
        };
        Ok(Self { url, credential, here, certificate })
    }
}

/// The data folder of this machine's hub, by flag, variable or default.
pub(crate) fn data_dir(global: &GlobalArgs, environment: &Environment) -> Option<PathBuf> {
    global
        .data_dir
        .clone()
        .or_else(|| environment.get(env::DATA_DIR).map(PathBuf::from))
        .or_else(|| config::default_data_dir(environment))
}

/// The hub that the user says is meant.
fn named_hub(flag: Option<&str>, environment: &Environment) -> anyhow::Result<Option<Url>> {
    match (flag, environment.get(env::HUB)) {
        (Some(text), _) => parse(text, "--hub").map(Some),
        (None, Some(text)) => parse(text, env::HUB.name).map(Some),
        (None, None) => Ok(None),
    }
}

/// Two ways to write one address of this machine: a port has one owner, under whatever name.
fn same_hub(own: &Url, other: &Url) -> bool {
    own.port_or_known_default() == other.port_or_known_default()
}

/// The URL of a hub, from wherever it was given.
pub(crate) fn parse(text: &str, source: &str) -> anyhow::Result<Url> {
    // The text is not repeated: a URL with a password in it belongs in no message.
    let wrong = |what: &str| {
        Failure::new(Exit::Usage, format!("{source}: {what}"))
            .hint("give a URL such as http://127.0.0.1:7420")
    };
    // An address alone is meant as http, and the MCP endpoint as the hub it belongs to.
    let text = text.trim();
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let text = text.trim_end_matches('/').trim_end_matches("/v1").trim_end_matches("/mcp");
    let url = Url::parse(text).map_err(|e| wrong(&format!("not a URL: {e}")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(wrong("not an http:// or https:// URL").into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("a URL must not carry a user name or password").into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("the URL of a hub has no ?query and no #fragment").into());
    }
    Ok(url)
}

/// This machine, whatever a name service says: an address, or the one reserved name.
pub(crate) fn is_loopback(url: &Url) -> bool {
    url.host_str() == Some("localhost") || ip_address(url).is_some_and(|address| address.is_loopback())
}

/// The host of the URL, where it is an address and not a name.
pub(crate) fn ip_address(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// There is a hub on another machine, and nothing to present to it.
fn no_token(url: &Url) -> Failure {
    let variable = env::TOKEN.name;
    let message =
        format!("no token for the hub at {}: {variable} is not set", url.as_str().trim_end_matches('/'));
    let hint = format!(
        "set {variable} to a token made there with `plexus token create`; the admin token of this machine's own hub \
         is never sent to another machine"
    );
    Failure::new(Exit::Denied, message).hint(hint)
}

/// What to present to a hub on this machine, where the user does not say.
fn local_credential(url: &Url, data_dir: Option<&Path>) -> anyhow::Result<Credential> {
    let variable = env::TOKEN.name;
    let Some(data_dir) = data_dir else {
        return Ok(Credential::Missing(format!("{variable} is not set and no data folder is known")));
    };
    if let Some(HubFile { url: own, .. }) = HubFile::read(data_dir)?
        && !same_hub(&own, url)
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
            .hint(format!("make it private as said, or set {variable} to another token"))
    })?;
    let Some(content) = content else {
        let reason = format!("{variable} is not set and {} does not exist", path.display());
        return Ok(Credential::Missing(reason));
    };
    let token = String::from_utf8(content).unwrap_or_default();
    match token.trim() {
        "" => Err(Failure::new(Exit::Denied, format!("{} holds no token", path.display()))
            .hint(format!("restart the hub on this data folder, or set {variable}"))
            .into()),
        token => Ok(Credential::Local(Secret::from(token))),
    }
}

#[cfg(test)]
mod tests;
