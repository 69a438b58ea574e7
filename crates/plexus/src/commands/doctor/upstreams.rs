//! Checks that the files of MCP servers are valid, that their programs exist, and that a running hub can use the servers.

use std::path::Path;

use plexus_kit::process::find_program;
use plexus_kit::{Environment, ExposeSecret as _, env};
use plexus_proto::api::{Upstream, UpstreamState};
use plexus_upstream::client::install_advice;
use plexus_upstream::config::{
    Cause, Entry, Exposure, Folder, LEGACY_FILE, ServerConfig, StdioConfig, Transport,
};

use super::{CheckContext, Finding};
use crate::commands::Invocation;
use crate::commands::upstream::{is_unhealthy, show, tools};
use crate::listing::{self, ListArgs};
use crate::output::one_line;
use crate::{client, shell};

const CHECK: &str = "upstreams";
/// Most servers to fetch.
const MAX_SERVERS: usize = 1_000;
/// Most tools in quarantine to name per server.
const MAX_NAMED: usize = 5;
/// The text for a `${env:…}` without a value.
const UNSET: &str = "which is not set or empty";

/// Checks the files, and the servers of a running hub.
pub(super) async fn check(
    context: &CheckContext,
    invocation: &Invocation<'_>,
    running: bool,
) -> Vec<Finding> {
    let environment = invocation.environment();
    // The hub may have variables that this command does not have.
    let folder = Folder::new(context.config.upstreams.dir.clone(), environment.clone()).excusing_missing();
    let entries = match folder.scan() {
        Ok(entries) => entries,
        Err(error) => {
            return vec![Finding::problem(CHECK, error.to_string(), "run this as the user of the hub")];
        }
    };
    // A token that may not read them is not a problem of the servers.
    let servers = if running { fetch_servers(invocation).await.unwrap_or_default() } else { Vec::new() };
    let exposure = Exposure::of(folder.dir());
    let mut found: Vec<Finding> =
        exposure.iter().map(|exposure| folder_finding(folder.dir(), exposure)).collect();
    // Report the folder once, not for every file in it.
    let folder_warning = exposure.map(|exposure| exposure.to_string());
    for entry in &entries {
        let known = servers.iter().find(|server| server.name == entry.name);
        found.extend(entry_findings(context, entry, known, folder_warning.as_deref(), environment));
    }
    let broken: Vec<&str> =
        entries.iter().filter(|entry| entry.server.is_err()).map(|entry| entry.name.as_str()).collect();
    let unhealthy = servers.iter().filter(|server| is_unhealthy(server.state));
    // Servers with an invalid file are already reported.
    let unhealthy = unhealthy.filter(|server| !broken.contains(&server.name.as_str()));
    found.extend(unhealthy.map(|server| server_finding(context, server)));
    found.extend(servers.iter().flat_map(|server| trust_findings(context, server)));
    let old = context.config.data_dir.join(LEGACY_FILE);
    if old.exists() {
        let message =
            format!("when it starts, the hub moves the servers of {} to separate files", old.display());
        found.push(Finding::warning(CHECK, message, format!("{} up", context.plexus)));
    }
    if found.is_empty() {
        let dir = folder.dir().display();
        found.push(Finding::ok(
            CHECK,
            match entries.len() {
                0 => format!("no files of MCP servers in {dir}"),
                count => format!("files of MCP servers in {dir}: {count}"),
            },
        ));
    }
    found
}

async fn fetch_servers(invocation: &Invocation<'_>) -> anyhow::Result<Vec<Upstream>> {
    let args = ListArgs { limit: MAX_SERVERS, cursor: None };
    let page = listing::fetch(&invocation.hub()?, &["upstreams"], &[], &args, |_| true).await?;
    page.items.iter().map(|item| client::decode(item)).collect()
}

/// The finding for a server that the hub cannot use.
fn server_finding(context: &CheckContext, server: &Upstream) -> Finding {
    let why = server.last_error.as_ref().map_or("no reason is known", |error| &error.message);
    if server.state == UpstreamState::Invalid {
        return split_finding(CHECK, why, Finding::problem);
    }
    let (plexus, name) = (&context.plexus, shell::name(&one_line(&server.name)));
    let message = format!("{} is {}: {why}", server.name, server.state.as_str());
    let fix = format!(
        "see {plexus} upstream show {name}, then {plexus} upstream restart {name}; or disable it: {plexus} upstream \
         disable {name}"
    );
    Finding::problem(CHECK, message, fix)
}

/// The finding for a folder that others can write to.
fn folder_finding(dir: &Path, exposure: &Exposure) -> Finding {
    let finding = if exposure.is_to_everyone() { Finding::problem } else { Finding::warning };
    finding(CHECK, format!("{} {}", dir.display(), exposure.description()), exposure.fix())
}

/// Findings for tools in quarantine, and for suspicious tools that only a rule approved.
fn trust_findings(context: &CheckContext, server: &Upstream) -> Vec<Finding> {
    let (plexus, name) = (&context.plexus, shell::name(&one_line(&server.name)));
    let waiting = (!server.quarantined.is_empty()).then(|| {
        let quarantined = &server.quarantined;
        let mut names: Vec<String> = quarantined
            .iter()
            .take(MAX_NAMED)
            .map(|tool| format!("{} ({})", tool.name, tool.reason.as_str()))
            .collect();
        if quarantined.len() > MAX_NAMED {
            names.push(format!("and {} more", quarantined.len() - MAX_NAMED));
        }
        let message =
            format!("{} has {} in quarantine: {}", server.name, tools(quarantined.len()), names.join(", "));
        Finding::warning(CHECK, message, format!("{plexus} upstream approve {name}"))
    });
    let by_rule = server.flagged.iter().filter(|tool| !tool.is_approved_by_someone());
    let suspicious = by_rule.map(|tool| {
        let message = format!("{} of {} has {}", tool.name, server.name, show::flags(&tool.flags));
        let fix = format!("review it; to hide it, add it to tools.deny in {}", server.file);
        Finding::warning(CHECK, message, fix)
    });
    waiting.into_iter().chain(suspicious).collect()
}

fn entry_findings(
    context: &CheckContext,
    entry: &Entry,
    known: Option<&Upstream>,
    folder_warning: Option<&str>,
    environment: &Environment,
) -> Vec<Finding> {
    let server = match &entry.server {
        Ok(server) => server,
        Err(problems) => {
            let findings = problems.iter().map(|problem| match problem.cause {
                Cause::Missing => split_finding(CHECK, &mark_local(&problem.to_string()), Finding::warning),
                Cause::File | Cause::Field => split_finding(CHECK, &problem.to_string(), Finding::problem),
            });
            return findings.collect();
        }
    };
    // A hub that runs the server has the variables that are not set here.
    let is_valid_in_hub = known.is_some_and(|known| known.state != UpstreamState::Invalid);
    let warnings = server.warnings.iter().filter(|warning| folder_warning != Some(warning.as_str()));
    let warnings = warnings.filter(|warning| !(is_valid_in_hub && warning.contains(UNSET)));
    let mut found: Vec<Finding> =
        warnings.map(|warning| split_finding(CHECK, &mark_local(warning), Finding::warning)).collect();
    // If the server is ready in the hub, its program exists there.
    let is_up = known.is_some_and(|known| known.state == UpstreamState::Ready);
    let is_reported = known.is_some_and(|known| is_unhealthy(known.state));
    if server.enabled && !is_up && !is_reported && !has_program(server, environment) {
        let message = format!("{}: the program in `command` does not exist", server.file.display());
        let fix = format!(
            "{}; or write its full path; or disable the server: {} upstream disable {}",
            program_of(server).map_or_else(|| "install it".to_owned(), install_advice),
            context.plexus,
            shell::name(&one_line(&server.name))
        );
        found.push(Finding::problem(CHECK, message, fix));
    }
    found
}

/// Adds that a variable is unset in this command only, as the hub may have it.
fn mark_local(message: &str) -> String {
    message.replace(UNSET, "which is not set here")
}

/// Splits a text at the first semicolon into message and fix.
fn split_finding(
    check: &'static str,
    text: &str,
    finding: fn(&'static str, String, String) -> Finding,
) -> Finding {
    let (message, fix) = text.split_once("; ").unwrap_or((text, "correct the file"));
    finding(check, message.to_owned(), fix.to_owned())
}

/// The program of a server that is a process.
fn program_of(server: &ServerConfig) -> Option<&str> {
    match &server.transport {
        Transport::Stdio(StdioConfig { command, .. }) => Some(command),
        _ => None,
    }
}

/// Whether the program exists; true for a server on the network.
fn has_program(server: &ServerConfig, environment: &Environment) -> bool {
    let Transport::Stdio(StdioConfig { command, env: variables, .. }) = &server.transport else {
        return true;
    };
    let own = variables.get(env::PATH.name).map(|path| path.expose_secret());
    let path = own.or_else(|| environment.get(env::PATH)).unwrap_or_default();
    find_program(command, path).is_some()
}
