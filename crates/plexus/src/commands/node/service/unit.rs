//! The unit of a node: the file in `deploy/`, with the paths of this machine in it.

use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};

/// Of the machine, and of a user.
const TEMPLATES: [&str; 2] = [
    include_str!("../../../../../../deploy/plexus-node.service"),
    include_str!("../../../../../../deploy/plexus-node.user.service"),
];
/// Folders of the service of a machine, as the unit has them.
pub(super) const SYSTEM_STATE: &str = "/var/lib/plexus-node";
pub(super) const SYSTEM_HOME: &str = "/var/lib/plexus-node/home";
pub(super) const SYSTEM_DATA: &str = "/var/lib/plexus-node/data";
/// Before a sum of all that follows: who changes a unit by hand does not change the sum.
const MARK: &str = "# Written by `plexus node install` ";

/// Whose service it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    System,
    User,
}

impl Scope {
    pub(super) fn systemctl(self) -> &'static str {
        match self {
            Self::System => "systemctl",
            Self::User => "systemctl --user",
        }
    }
}

/// The unit for this program and this folder; else what is in their paths that cannot be said in one.
pub(super) fn text(scope: Scope, program: &Path, data_dir: &Path) -> Result<String, &'static str> {
    let (program, folder) = (value(program)?, value(data_dir)?);
    let template = TEMPLATES[usize::from(scope == Scope::User)];
    let elsewhere = scope == Scope::System && data_dir != Path::new(SYSTEM_DATA);
    let mut text = String::with_capacity(template.len() + 256);
    for line in template.lines() {
        match line.split_once('=') {
            Some(("ExecStart", _)) => text.push_str(&format!("ExecStart={} node run", quoted(&program))),
            Some(("Environment", set)) if set.starts_with("PLEXUS_NODE_DATA_DIR=") => {
                text.push_str(&format!("Environment={}", quoted(&format!("PLEXUS_NODE_DATA_DIR={folder}"))));
            }
            Some(("ReadWritePaths", _)) if elsewhere => text.push_str(&format!("{line} {}", quoted(&folder))),
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    Ok(text)
}

/// A path as systemd reads it.
fn value(path: &Path) -> Result<String, &'static str> {
    let path = path.to_str().ok_or("something other than text")?;
    if path.chars().any(char::is_control) {
        return Err("a control character");
    }
    // Where it stands for a variable and where not depends on the version.
    if path.contains('$') {
        return Err("a $");
    }
    Ok(path.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@,=%".contains(c);
    if value.chars().all(plain) { value.to_owned() } else { format!("\"{value}\"") }
}

/// The same with a sum, by which it is told whether it was changed.
pub(super) fn marked(text: &str) -> String {
    format!("{MARK}{}\n{text}", sum(text))
}

/// Whether a file is as it was written, by whatever version.
pub(super) fn is_unchanged(file: &str) -> bool {
    let Some((mark, text)) = file.split_once('\n') else { return false };
    mark.strip_prefix(MARK).is_some_and(|noted| noted == sum(text))
}

fn sum(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
