//! Checks that the configuration is valid, and warns of secrets in its file.

use std::path::Path;

use plexus_kit::Config;
use plexus_kit::config::{Origin, Problem};

use super::{Finding, fallback};
use crate::commands::{Invocation, config};
use crate::shell;

const CHECK: &str = "configuration";

/// Returns the findings, and a configuration for the other checks.
pub(super) fn check(
    file: Option<&Path>,
    mcp_dir: Option<&Path>,
    invocation: &Invocation<'_>,
) -> (Vec<Finding>, Option<Config>) {
    let checked = config::load_with(file, mcp_dir, invocation);
    let (problems, warnings) = match &checked {
        Ok(config) => (&[][..], config.warnings()),
        Err(error) => (&error.problems[..], &error.warnings[..]),
    };
    let mut found: Vec<_> =
        problems.iter().map(|problem| Finding::problem(CHECK, problem.to_string(), fix(problem))).collect();
    let move_secret = "put the whole URL into that variable, or the password into one that the file references as `${env:NAME}`";
    found.extend(warnings.iter().map(|warning| Finding::warning(CHECK, warning.as_str(), move_secret)));
    let Ok(config) = checked else { return (found, fallback(mcp_dir, invocation)) };
    if !found.is_empty() {
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
        Problem::Reference { .. } => "set what it references, or reference something else".to_owned(),
        Problem::Value { .. } | Problem::NoDataDir => "pass a folder with --data-dir".to_owned(),
    }
}

/// The fix for a wrong line: comment it out, which restores the default, if the line contains the whole value.
fn comment_out(path: &Path, line: usize) -> String {
    let text = fs_err::read_to_string(path).unwrap_or_default();
    match text.lines().nth(line.saturating_sub(1)) {
        Some(written) if is_whole(written) => {
            format!("correct the line, or comment it out: sed -i '{line}s/^/#/' {}", shell::word(path))
        }
        _ => format!("correct it in {}", shell::word(path)),
    }
}

/// Whether a line contains a key and its whole value.
fn is_whole(line: &str) -> bool {
    let balanced = |open: char, close: char| line.matches(open).count() == line.matches(close).count();
    let is_pair = line.contains('=') && !line.trim_start().starts_with('[');
    let one_line = !line.contains("\"\"\"") && !line.contains("'''");
    is_pair && one_line && balanced('[', ']') && balanced('{', '}')
}

#[cfg(test)]
mod tests;
