//! Whether the configuration can be used, and what in it should not stay.

use std::path::Path;

use plexus_kit::Config;
use plexus_kit::config::{Origin, Problem};

use super::{Finding, fallback};
use crate::commands::{Invocation, config};
use crate::shell;

const CHECK: &str = "configuration";

/// The findings, and a configuration to go on with.
pub(super) fn check(file: Option<&Path>, invocation: &Invocation<'_>) -> (Vec<Finding>, Option<Config>) {
    let config = match config::load(file, invocation) {
        Ok(config) => config,
        Err(error) => {
            let found = error
                .problems
                .iter()
                .map(|problem| Finding::problem(CHECK, problem.to_string(), fix(problem)));
            return (found.collect(), fallback(invocation));
        }
    };
    let warnings = config.warnings();
    if !warnings.is_empty() {
        let fix = "put the whole URL into that variable, or the password into one that the file names as `${env:NAME}`";
        let found = warnings.iter().map(|told| Finding::warning(CHECK, told.as_str(), fix)).collect();
        return (found, Some(config));
    }
    let set = config.settings.iter().filter(|effective| effective.origin != Origin::Default).count();
    (vec![Finding::ok(CHECK, format!("valid; settings that are not defaults: {set}"))], Some(config))
}

fn fix(problem: &Problem) -> String {
    match problem {
        Problem::UnknownKey { path, line, .. } | Problem::Syntax { path, line, .. } => {
            comment_out(path, *line)
        }
        Problem::Value { origin: Origin::File { path, line }, .. } => comment_out(path, *line),
        Problem::Value { origin: Origin::Variable(name), .. } => format!("unset {name}"),
        Problem::Read { path, .. } => {
            format!("make {} readable, or name another file with --config", shell::word(path))
        }
        Problem::Value { .. } | Problem::NoDataDir => "name a folder with --data-dir".to_owned(),
    }
}

/// Takes the line out, which leaves the default.
fn comment_out(path: &Path, line: usize) -> String {
    format!("correct the line, or take it out: sed -i '{line}s/^/#/' {}", shell::word(path))
}
