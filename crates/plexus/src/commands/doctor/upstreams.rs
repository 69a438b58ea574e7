//! Whether the files of MCP servers are in order, the programs they name are there, and a running hub has the servers up.

use std::path::Path;

use plexus_kit::process::find_program;
use plexus_kit::{Environment, ExposeSecret as _, env};
use plexus_proto::api::{Upstream, UpstreamState};
use plexus_upstream::client::install_advice;
use plexus_upstream::config::{
    Cause, Entry, Exposure, Folder, LEGACY_FILE, ServerConfig, StdioConfig, Transport,
};

use super::{Finding, Subject};
use crate::commands::Invocation;
use crate::commands::upstream::{is_unwell, show, tools};
use crate::listing::{self, ListArgs};
use crate::output::one_line;
use crate::{client, shell};

const CHECK: &str = "upstreams";
/// Servers that are asked for.
const MOST: usize = 1_000;
/// Tools of a server that are named because they wait.
const HELD: usize = 5;
/// How it is said that a `${env:…}` has no value.
const UNSET: &str = "which is not set or empty";

/// What the files say by themselves, and how the servers of a running hub are doing.
pub(super) async fn check(subject: &Subject, invocation: &Invocation<'_>, running: bool) -> Vec<Finding> {
    let environment = invocation.environment();
    // The hub may have been given variables that this command was not.
    let folder = Folder::new(subject.config.upstreams.dir.clone(), environment.clone()).excusing_missing();
    let entries = match folder.scan() {
        Ok(entries) => entries,
        Err(error) => {
            return vec![Finding::problem(CHECK, error.to_string(), "run this as the user of the hub")];
        }
    };
    // A token that may not read them is no problem of the servers.
    let servers = if running { of_hub(invocation).await.unwrap_or_default() } else { Vec::new() };
    let exposure = Exposure::of(folder.dir());
    let mut found: Vec<Finding> = exposure.iter().map(|exposure| of_folder(folder.dir(), exposure)).collect();
    // What is true of the folder is said once, and not of every file in it.
    let said = exposure.map(|exposure| exposure.to_string());
    for entry in &entries {
        let known = servers.iter().find(|server| server.name == entry.name);
        found.extend(of_entry(subject, entry, known, said.as_deref(), environment));
    }
    let broken: Vec<&str> =
        entries.iter().filter(|entry| entry.server.is_err()).map(|entry| entry.name.as_str()).collect();
    let unwell = servers.iter().filter(|server| is_unwell(server.state));
    // What is wrong with a file was said of the file.
    let unwell = unwell.filter(|server| !broken.contains(&server.name.as_str()));
    found.extend(unwell.map(|server| of_server(subject, server)));
    found.extend(servers.iter().flat_map(|server| untrusted(subject, server)));
    let old = subject.config.data_dir.join(LEGACY_FILE);
    if old.exists() {
        let message = format!("the servers of {} get files of their own when the hub starts", old.display());
        found.push(Finding::warning(CHECK, message, format!("{} up", subject.plexus)));
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

async fn of_hub(invocation: &Invocation<'_>) -> anyhow::Result<Vec<Upstream>> {
    let args = ListArgs { limit: MOST, cursor: None };
    let page = listing::fetch(&invocation.hub()?, &["upstreams"], &[], &args, |_| true).await?;
    page.items.iter().map(|item| client::decode(item)).collect()
}

/// A server that the hub cannot use now.
fn of_server(subject: &Subject, server: &Upstream) -> Finding {
    let why = server.last_error.as_ref().map_or("no reason is known", |error| &error.message);
    if server.state == UpstreamState::Invalid {
        return split(CHECK, why, Finding::problem);
    }
    let (plexus, name) = (&subject.plexus, shell::name(&one_line(&server.name)));
    let message = format!("{} is {}: {why}", server.name, server.state.as_str());
    let fix = format!(
        "see {plexus} upstream show {name}, then {plexus} upstream restart {name}; or switch it off: {plexus} upstream \
         disable {name}"
    );
    Finding::problem(CHECK, message, fix)
}

/// A folder that others can write.
fn of_folder(dir: &Path, exposure: &Exposure) -> Finding {
    let finding = if exposure.is_to_everyone() { Finding::problem } else { Finding::warning };
    finding(CHECK, format!("{} {}", dir.display(), exposure.what()), exposure.fix())
}

/// Tools that wait to be approved, and those that are listed by a rule although they are strange.
fn untrusted(subject: &Subject, server: &Upstream) -> Vec<Finding> {
    let (plexus, name) = (&subject.plexus, shell::name(&one_line(&server.name)));
    let waiting = (!server.quarantined.is_empty()).then(|| {
        let held = &server.quarantined;
        let mut told: Vec<String> =
            held.iter().take(HELD).map(|tool| format!("{} ({})", tool.name, tool.reason.as_str())).collect();
        if held.len() > HELD {
            told.push(format!("and {} more", held.len() - HELD));
        }
        let message = format!("{} has {} in quarantine: {}", server.name, tools(held.len()), told.join(", "));
        Finding::warning(CHECK, message, format!("{plexus} upstream approve {name}"))
    });
    let by_rule = server.flagged.iter().filter(|tool| !tool.is_approved_by_someone());
    let strange = by_rule.map(|tool| {
        let message = format!("{} of {} has {}", tool.name, server.name, show::flags(&tool.flags));
        let fix = format!(
            "look at it, and leave it out with tools.deny in {} if it is not to be trusted",
            server.file
        );
        Finding::warning(CHECK, message, fix)
    });
    waiting.into_iter().chain(strange).collect()
}

fn of_entry(
    subject: &Subject,
    entry: &Entry,
    known: Option<&Upstream>,
    said: Option<&str>,
    environment: &Environment,
) -> Vec<Finding> {
    let server = match &entry.server {
        Ok(server) => server,
        Err(problems) => {
            let told = problems.iter().map(|problem| match problem.cause {
                Cause::Missing => split(CHECK, &here(&problem.to_string()), Finding::warning),
                Cause::File | Cause::Field => split(CHECK, &problem.to_string(), Finding::problem),
            });
            return told.collect();
        }
    };
    // A hub that runs the server has what is not set here.
    let is_the_hubs = known.is_some_and(|known| known.state != UpstreamState::Invalid);
    let warnings = server.warnings.iter().filter(|told| said != Some(told.as_str()));
    let warnings = warnings.filter(|told| !(is_the_hubs && told.contains(UNSET)));
    let mut found: Vec<Finding> = warnings.map(|told| split(CHECK, &here(told), Finding::warning)).collect();
    // A server that the hub has up found its program there.
    let is_up = known.is_some_and(|known| known.state == UpstreamState::Ready);
    let is_told = known.is_some_and(|known| is_unwell(known.state));
    if server.enabled && !is_up && !is_told && !has_program(server, environment) {
        let message = format!("{}: `command` names a program that is not there", server.file.display());
        let fix = format!(
            "{}; or write its full path; or switch the server off: {} upstream disable {}",
            program_of(server).map_or_else(|| "install it".to_owned(), install_advice),
            subject.plexus,
            shell::name(&one_line(&server.name))
        );
        found.push(Finding::problem(CHECK, message, fix));
    }
    found
}

/// That a variable is not set is known of this command only.
fn here(told: &str) -> String {
    told.replace(UNSET, "which is not set here")
}

/// What is wrong, and behind the first semicolon what to do.
fn split(check: &'static str, told: &str, finding: fn(&'static str, String, String) -> Finding) -> Finding {
    let (message, fix) = told.split_once("; ").unwrap_or((told, "correct the file"));
    finding(check, message.to_owned(), fix.to_owned())
}

/// Whether the system would find the program; a server on the network needs none.
/// The program of a server that is a process.
fn program_of(server: &ServerConfig) -> Option<&str> {
    match &server.transport {
        Transport::Stdio(StdioConfig { command, .. }) => Some(command),
        _ => None,
    }
}

fn has_program(server: &ServerConfig, environment: &Environment) -> bool {
    let Transport::Stdio(StdioConfig { command, env: variables, .. }) = &server.transport else {
        return true;
    };
    let own = variables.get(env::PATH.name).map(|path| path.expose_secret());
    let path = own.or_else(|| environment.get(env::PATH)).unwrap_or_default();
    find_program(command, path).is_some()
}
