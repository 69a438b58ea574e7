//! The unit of a service: the file in `deploy/`, with the paths of this machine.

use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};

use super::Service;

/// Whether a service belongs to the system or to a user.
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

/// The unit for this program and data folder. The error names the part of a path that a unit does not support.
pub(super) fn text(
    service: &Service,
    scope: Scope,
    program: &Path,
    data_dir: &Path,
) -> Result<String, &'static str> {
    let (program, folder) = (escape(program)?, escape(data_dir)?);
    let template = service.templates[usize::from(scope == Scope::User)];
    let variable = format!("{}=", service.variable);
    let custom_folder = scope == Scope::System && data_dir != Path::new(service.data);
    let mut text = String::with_capacity(template.len() + 256);
    for line in template.lines() {
        match line.split_once('=') {
            Some(("ExecStart", _)) => {
                text.push_str(&format!("ExecStart={} {}", quoted(&program), service.run))
            }
            Some(("Environment", set)) if set.starts_with(&variable) => {
                text.push_str(&format!("Environment={}", quoted(&format!("{variable}{folder}"))));
            }
            Some(("ReadWritePaths", _)) if custom_folder => {
                text.push_str(&format!("{line} {}", quoted(&folder)))
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    Ok(text)
}

/// Escapes a path for systemd.
fn escape(path: &Path) -> Result<String, &'static str> {
    let path = path.to_str().ok_or("bytes that are not UTF-8")?;
    if path.chars().any(char::is_control) {
        return Err("a control character");
    }
    // Where systemd expands variables depends on its version.
    if path.contains('$') {
        return Err("a dollar sign");
    }
    Ok(path.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@,=%".contains(c);
    if value.chars().all(plain) { value.to_owned() } else { format!("\"{value}\"") }
}

/// Adds a checksum to a unit, so that a later edit is detected.
pub(super) fn with_checksum(service: &Service, text: &str) -> String {
    format!("{}{}\n{text}", header(service), checksum(text))
}

/// Whether a file is as any version of this program wrote it.
pub(super) fn is_unchanged(service: &Service, file: &str) -> bool {
    let Some((line, text)) = file.split_once('\n') else { return false };
    line.strip_prefix(&header(service)).is_some_and(|expected| expected == checksum(text))
}

fn header(service: &Service) -> String {
    format!("# Written by `{} install` ", service.command)
}

fn checksum(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
