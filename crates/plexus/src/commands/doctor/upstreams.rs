//! Whether the files of MCP servers are in order, and the programs they name are there.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use plexus_kit::{Environment, ExposeSecret as _, env};
use plexus_mcp::upstream::config::{Entry, Folder, LEGACY_FILE, ServerConfig, StdioConfig, Transport};

use super::{Finding, Subject};
use crate::shell;

const CHECK: &str = "upstreams";

pub(super) fn check(subject: &Subject, environment: &Environment) -> Vec<Finding> {
    let folder = Folder::new(subject.config.upstreams.dir.clone(), environment.clone());
    let entries = match folder.scan() {
        Ok(entries) => entries,
        Err(error) => {
            return vec![Finding::problem(CHECK, error.to_string(), "run this as the user of the hub")];
        }
    };
    let mut found: Vec<Finding> =
        entries.iter().flat_map(|entry| of_entry(subject, entry, environment)).collect();
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

fn of_entry(subject: &Subject, entry: &Entry, environment: &Environment) -> Vec<Finding> {
    let server = match &entry.server {
        Ok(server) => server,
        Err(problems) => {
            let told = problems.iter().map(|problem| split(CHECK, &problem.to_string(), Finding::problem));
            return told.collect();
        }
    };
    let mut found: Vec<Finding> =
        server.warnings.iter().map(|told| split(CHECK, told, Finding::warning)).collect();
    if server.enabled && !has_program(server, environment) {
        let message = format!("{}: `command` names a program that is not there", server.file.display());
        let fix = format!(
            "install it, or write its full path; or switch the server off: {} upstream disable {}",
            subject.plexus,
            shell::word(Path::new(&server.name))
        );
        found.push(Finding::problem(CHECK, message, fix));
    }
    found
}

/// What is wrong, and behind the first semicolon what to do.
fn split(check: &'static str, told: &str, finding: fn(&'static str, String, String) -> Finding) -> Finding {
    let (message, fix) = told.split_once("; ").unwrap_or((told, "correct the file"));
    finding(check, message.to_owned(), fix.to_owned())
}

/// Whether the system would find the program; a server on the network needs none.
fn has_program(server: &ServerConfig, environment: &Environment) -> bool {
    let Transport::Stdio(StdioConfig { command, env: variables, .. }) = &server.transport else {
        return true;
    };
    if command.contains('/') {
        return is_program(Path::new(command));
    }
    let own = variables.get(env::PATH.name).map(|path| path.expose_secret());
    let path = own.or_else(|| environment.get(env::PATH)).unwrap_or_default();
    path.split(':').map(|folder| PathBuf::from(folder).join(command)).any(|file| is_program(&file))
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
