//! Conditions on requests that make the hub run a command, in addition to the scope `admin`.
//!
//! A gateway that starts any command it receives is a remote shell for everyone who can reach it. Therefore a server that
//! is a process is accepted only from the hub's own machine, and only with a command that the machine's configuration
//! lists or its owner has allowed there. A server configured from elsewhere also must not refer to the machine's environment
//! or files, because their content would be sent to the server's owner. Nor may it be in the hub's own network unless the
//! configuration allows it, because services there trust requests that come from inside.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use axum::extract::{ConnectInfo, FromRequestParts};
use http::header::{FORWARDED, HOST, VIA};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use plexus_kit::allowed_commands;
use plexus_proto::ErrorCode;
use plexus_upstream::config::{Inward, PlannedServer, ServerConfig, Transport};
use serde_json::{Map, Value, json};

use crate::App;
use crate::http::ApiError;
use crate::services::Services;

/// Headers by which proxies mark forwarded requests.
const PROXY_HEADERS: [&str; 2] = ["x-real-ip", "x-client-ip"];
const PROXY_PREFIX: &str = "x-forwarded-";
/// Prefixes of variables that make the dynamic loader run other code. `PATH` is checked as well: it decides which
/// program a name refers to.
const LOADER_PREFIXES: [&str; 2] = ["LD_", "DYLD_"];

/// Maximum length of a command that is repeated in a refusal.
const MAX_SHOWN_CHARS: usize = 100;

/// The origin of a request, as far as it can be determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::routes) enum RequestOrigin {
    /// This machine, directly.
    Local,
    /// Anywhere else; the text continues the phrase "this request".
    Remote(String),
}

impl FromRequestParts<App> for RequestOrigin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
        Ok(Self::of(peer, &parts.headers))
    }
}

impl RequestOrigin {
    fn of(peer: Option<IpAddr>, headers: &HeaderMap) -> Self {
        let Some(peer) = peer.map(|peer| peer.to_canonical()) else {
            return Self::Remote("has an unknown origin".to_owned());
        };
        if !peer.is_loopback() {
            return Self::Remote(format!("comes from {peer}"));
        }
        let proxy_header = headers.keys().find(|name| {
            let text = name.as_str();
            *name == FORWARDED
                || *name == VIA
                || text.starts_with(PROXY_PREFIX)
                || PROXY_HEADERS.contains(&text)
        });
        if let Some(name) = proxy_header {
            return Self::Remote(format!("comes through a proxy (it has the header {name})"));
        }
        // Most proxies pass on the host name that the client requested.
        match headers.get(HOST).and_then(|host| host.to_str().ok()) {
            Some(host) if is_loopback_host(host) => Self::Local,
            host => {
                Self::Remote(format!("is for {}, which is not a loopback address", host.unwrap_or("no host")))
            }
        }
    }
}

/// Whether a `Host` names loopback. The guard has already refused malformed hosts.
fn is_loopback_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Succeeds only if the request comes from the hub's own machine. `what` names the operation that requires it.
pub(in crate::routes) fn require_local(origin: &RequestOrigin, what: &str) -> Result<(), ApiError> {
    match origin {
        RequestOrigin::Local => Ok(()),
        RequestOrigin::Remote(how) => Err(refusal(
            format!("{what} only on the hub's own machine, and this request {how}"),
            "Run the command on the hub's machine.",
            &["loopback"],
        )),
    }
}

/// Succeeds only if the values that a server refers to may be sent to the server's owner. Must be called before the
/// references are resolved, because resolution alone reveals what exists.
pub(super) fn check_references(origin: &RequestOrigin, has_references: bool) -> Result<(), ApiError> {
    match origin {
        RequestOrigin::Remote(how) if has_references => Err(refusal(
            format!(
                "a server that refers to the environment or to files of the hub's machine must be configured there, and \
                this request {how}"
            ),
            "Leave out `${…}`, or run the command on the hub's machine.",
            &["loopback"],
        )),
        _ => Ok(()),
    }
}

/// Succeeds only if the request may have the hub connect to the server's address.
pub(super) fn check_network(
    services: &Services,
    origin: &RequestOrigin,
    inward: Inward,
) -> Result<(), ApiError> {
    check_network_setting(services.config.load().upstreams.private_networks, origin, inward)
}

fn check_network_setting(
    private_networks: bool,
    origin: &RequestOrigin,
    inward: Inward,
) -> Result<(), ApiError> {
    let RequestOrigin::Remote(how) = origin else { return Ok(()) };
    let mut what = Vec::new();
    if inward.loopback {
        what.push("its `url` names the hub's own machine");
    }
    if inward.private {
        what.push("`allow_private` is for servers on its private networks");
    }
    if private_networks || what.is_empty() {
        return Ok(());
    }
    Err(refusal(
        format!(
            "a server in the hub's own network must be configured on the hub's machine, and this request {how}: {}",
            what.join(", and ")
        ),
        "Run the command on the hub's machine, or set `upstreams.private_networks` in plexus.toml there and restart the \
         hub. A server on the internet needs no `allow_private`: leave it out.",
        &["loopback"],
    ))
}

/// The program that a server would have the hub run.
#[derive(Debug)]
pub(super) struct Program<'a> {
    server: &'a str,
    file: &'a Path,
    command: &'a str,
    /// Names of the environment variables set for it.
    variables: Vec<String>,
}

impl<'a> Program<'a> {
    /// `None` for a server that is reached over HTTP.
    pub(super) fn of(server: &'a ServerConfig) -> Option<Self> {
        let Transport::Stdio(stdio) = &server.transport else { return None };
        let variables = stdio.env.keys().cloned().collect();
        Some(Self { server: &server.name, file: &server.file, command: &stdio.command, variables })
    }

    pub(super) fn planned(planned: &'a PlannedServer) -> Option<Self> {
        let shown = planned.shown();
        let variables = shown.get("env").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let variables = variables.cloned().collect();
        Some(Self { server: &planned.name, file: &planned.file, command: planned.command()?, variables })
    }
}

/// Succeeds only if the request may have the hub run this program. All failed conditions are reported at once.
pub(super) fn check_command(
    services: &Services,
    origin: &RequestOrigin,
    program: Option<Program<'_>>,
) -> Result<(), ApiError> {
    let Some(Program { server, file, command, variables }) = program else { return Ok(()) };
    let config = services.config.load();
    let (mut why, mut fix, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    if let RequestOrigin::Remote(how) = origin {
        why.push(format!("this request {how} and not from the hub's own machine"));
        fix.push("Run the command on the hub's machine.".to_owned());
        missing.push("loopback");
    }
    if !config.upstreams.allows(command) && !is_allowed_by_owner(&config.data_dir, command) {
        let shown: String = command.chars().take(MAX_SHOWN_CHARS).collect();
        let listed = match config.upstreams.commands.as_slice() {
            [] => "nothing".to_owned(),
            listed => listed.join(", "),
        };
        why.push(format!("the command `{shown}` is not in the setting `upstreams.commands` ({listed})"));
        fix.push(
            "On the hub's machine, `plexus upstream … --allow-command` allows it; or add it to `upstreams.commands` in \
             plexus.toml and send the hub SIGHUP."
                .to_owned(),
        );
        missing.push("command");
    }
    if let Some(variable) = variables.iter().find(|name| is_loader_variable(name)) {
        why.push(format!("{variable} in its `env` could run a program other than the listed one"));
        fix.push(format!("Leave out {variable}."));
        missing.push("env");
    }
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!("the hub may not run {server} for this request: {}", why.join("; "));
    fix.push(format!("Or write its file there yourself: {}", file.display()));
    let refused = refusal(message, &fix.join(" "), &missing);
    Err(refused.details(json!({ "missing": missing, "command": command })))
}

/// Whether the machine's owner has allowed the command beside the setting. A file that cannot be trusted allows nothing.
fn is_allowed_by_owner(data_dir: &Path, command: &str) -> bool {
    match allowed_commands::read(data_dir) {
        Ok(allowed) => allowed.iter().any(|allowed| allowed == command),
        Err(error) => {
            tracing::warn!(%error, "the commands that were allowed on this machine are not known");
            false
        }
    }
}

/// The command that would have to be allowed, where nothing else is missing.
pub(super) fn missing_command(refused: &ApiError) -> Option<&str> {
    (refused.details["missing"] == json!(["command"])).then(|| refused.details["command"].as_str()).flatten()
}

fn is_loader_variable(variable: &str) -> bool {
    variable == "PATH" || LOADER_PREFIXES.iter().any(|prefix| variable.starts_with(prefix))
}

fn refusal(message: String, hint: &str, missing: &[&str]) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, message)
        .hint(hint)
        .details(json!({ "missing": missing }))
}

#[cfg(test)]
mod tests;
