//! Which hub a command talks to, and with which token.
//!
//! The local admin token opens everything, so it never leaves this machine: it is presented to a
//! loopback address only. For any other hub the user names the token.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use plexus_kit::{Environment, Secret, config, env, private_file};
use reqwest::Url;
use serde::Deserialize;

use crate::cli::GlobalArgs;
use crate::failure::{Exit, Failure};

/// Written by a running hub into its data folder.
#[derive(Debug, Deserialize)]
struct HubFile {
    url: String,
}

/// A hub and what to present to it.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) credential: Credential,
}

#[derive(Debug)]
pub(crate) enum Credential {
    /// From the environment.
    Given(Secret),
    /// The admin token of this machine's hub.
    Local(Secret),
    /// A hub on this machine whose admin token is not there, most likely because it never ran:
    /// whether it runs is the better thing to say first, so the request is made without.
    Missing(String),
}

impl Target {
    pub(crate) fn resolve(global: &GlobalArgs, environment: &Environment) -> anyhow::Result<Self> {
        let data_dir = global
            .data_dir
            .clone()
            .or_else(|| environment.get(env::DATA_DIR).map(PathBuf::from))
            .or_else(|| config::default_data_dir(environment));
        let url = hub_url(global.hub.as_deref(), environment, data_dir.as_deref())?;
        let credential = credential(&url, environment, data_dir.as_deref())?;
        Ok(Self { url, credential })
    }

    pub(crate) fn is_loopback(&self) -> bool {
        is_loopback(&self.url)
    }
}

fn hub_url(flag: Option<&str>, environment: &Environment, data_dir: Option<&Path>) -> anyhow::Result<Url> {
    if let Some(text) = flag {
        return parse(text, "--hub");
    }
    if let Some(text) = environment.get(env::HUB) {
        return parse(text, env::HUB.name);
    }
    if let Some(url) = data_dir.map(running_hub).transpose()?.flatten() {
        return Ok(url);
    }
    parse(&format!("http://{}", config::DEFAULT_LISTEN), "the default address")
}

/// Where the hub on this data folder is, if one runs.
fn running_hub(data_dir: &Path) -> anyhow::Result<Option<Url>> {
    let path = data_dir.join("hub.json");
    let text = match fs_err::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let name = path.display().to_string();
    let file: HubFile = serde_json::from_str(&text).map_err(|e| {
        Failure::new(Exit::Failed, format!("{name} does not say where the hub is: {e}"))
            .hint("restart the hub, which writes it anew, or pass --hub URL")
    })?;
    parse(&file.url, &name).map(Some)
}

/// Two ways to write one address of this machine: a port has one owner, under whatever name.
fn same_hub(own: &Url, other: &Url) -> bool {
    own.port_or_known_default() == other.port_or_known_default()
}

fn parse(text: &str, source: &str) -> anyhow::Result<Url> {
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
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn credential(url: &Url, environment: &Environment, data_dir: Option<&Path>) -> anyhow::Result<Credential> {
    if let Some(token) = environment.get(env::TOKEN) {
        return Ok(Credential::Given(Secret::from(token.trim())));
    }
    let variable = env::TOKEN.name;
    if !is_loopback(url) {
        let message =
            format!("no token for the hub at {}: {variable} is not set", url.as_str().trim_end_matches('/'));
        let hint = format!(
            "set {variable} to a token made there with `plexus token create`; the admin token of this machine's \
             own hub is never sent to another machine"
        );
        return Err(Failure::new(Exit::Denied, message).hint(hint).into());
    }
    let Some(data_dir) = data_dir else {
        return Ok(Credential::Missing(format!("{variable} is not set and no data folder is known")));
    };
    if let Some(own) = running_hub(data_dir)?
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
            .hint(format!("or set {variable} to another token"))
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
