//! The unit of a service: the file in `deploy/`, with the paths of this machine in it.

use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};

use super::Service;

/// Whose service it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    System,
    User,
}

impl Scope {
    pub(crate) fn systemctl(self) -> &'static str {
        match self {
            Self::System => "systemctl",
            Self::User => "systemctl --user",
        }
    }
}

/// The unit for this program and this folder; else what is in their paths that cannot be said in one.
pub(super) fn text(
    service: &Service,
    scope: Scope,
    program: &Path,
    data_dir: &Path,
) -> Result<String, &'static str> {
    let (program, folder) = (value(program)?, value(data_dir)?);
    let template = service.templates[usize::from(scope == Scope::User)];
    let variable = format!("{}=", service.variable);
    let elsewhere = scope == Scope::System && data_dir != Path::new(service.data);
    let mut text = String::with_capacity(template.len() + 256);
    for line in template.lines() {
        match line.split_once('=') {
            Some(("ExecStart", _)) => {
                text.push_str(&format!("ExecStart={} {}", quoted(&program), service.run))
            }
            Some(("Environment", set)) if set.starts_with(&variable) => {
                text.push_str(&format!("Environment={}", quoted(&format!("{variable}{folder}"))));
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

/// The same with a sum, by which it is told whether it was changed: somebody who edits a unit does not update the sum.
pub(super) fn marked(service: &Service, text: &str) -> String {
    format!("{}{}\n{text}", mark(service), sum(text))
}

/// Whether a file is as it was written, by whatever version.
pub(super) fn is_unchanged(service: &Service, file: &str) -> bool {
    let Some((line, text)) = file.split_once('\n') else { return false };
    line.strip_prefix(&mark(service)).is_some_and(|noted| noted == sum(text))
}

fn mark(service: &Service) -> String {
    format!("# Written by `{} install` ", service.command)
}

fn sum(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
