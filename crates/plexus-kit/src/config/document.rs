//! Generated documentation of the settings: the default file and the reference in `docs/`.

use std::fmt::Write as _;

use super::{SETTINGS, Setting};

/// Maximum length of a comment line.
const WIDTH: usize = 100;

const HEAD: &str = "\
# Configuration of a Plexus hub. Contains every key, commented out, with its default.
#
# Save it as plexus.toml in the data folder, or name it with --config or PLEXUS_CONFIG.
# Variables override this file, and flags override both. `plexus config check` finds errors,
# `plexus config show --origin` prints the effective values and their sources. After a change, send
# the hub SIGHUP; keys marked [restart] take effect when the hub is restarted.
";

/// A file without effect: every key, commented out, with its description and default.
#[must_use]
pub fn default_file() -> String {
    let mut text = HEAD.to_owned();
    let mut section = "";
    for setting in SETTINGS {
        if setting.section() != section {
            section = setting.section();
            let _ = write!(text, "\n[{section}]\n");
        }
        let mark = if setting.reload { "" } else { " [restart]" };
        let unset = match setting.unset {
            "" => String::new(),
            unset => format!(" Default: {unset}."),
        };
        text.push('\n');
        for line in wrapped(&format!("{}{unset}{mark}", setting.about)) {
            let _ = writeln!(text, "# {line}");
        }
        let name = setting.key.rsplit('.').next().unwrap_or(setting.key);
        let _ = writeln!(text, "#{name} = {}", setting.default_value().shown());
    }
    text
}

/// The settings table of `docs/configuration.md`.
#[must_use]
pub fn reference() -> String {
    let mut text = String::from("| key | default | reload | description |\n|---|---|---|---|\n");
    for setting in SETTINGS {
        let reload = if setting.reload { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "| {} | {} | {reload} | {} |",
            names(setting),
            shown_default(setting),
            setting.about
        );
    }
    text
}

/// Every name of the setting: key, variables and flag.
fn names(setting: &Setting) -> String {
    let names = [Some(setting.key), Some(setting.variable), setting.fallback, setting.flag];
    let names: Vec<_> = names.into_iter().flatten().map(|name| format!("`{name}`")).collect();
    names.join("<br>")
}

fn shown_default(setting: &Setting) -> String {
    match setting.unset {
        "" => format!("`{}`", setting.default),
        unset => unset.to_owned(),
    }
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < WIDTH - 2 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests;
