//! Derives the reason for a failed connection from the output of ssh.
//!
//! At the requested log level, ssh also prints the names of key files. So only lines that are known to describe the
//! refusal are passed on, and for unknown failures the last line that is not a debug message.

use plexus_kit::foreign_text::{clean, cut};
use plexus_kit::shell;
use plexus_proto::ErrorCode;
use plexus_tools::CallError;

use super::target::Target;

/// The maximum number of lines retained.
const MAX_LINES: usize = 400;
/// The maximum number of bytes of a line.
const MAX_LINE_BYTES: usize = 1024;

/// The output of ssh until the connection is open.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    lines: Vec<String>,
    open: Vec<u8>,
}

impl Transcript {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                byte if self.open.len() < MAX_LINE_BYTES => self.open.push(*byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self) {
        let line = clean(&std::mem::take(&mut self.open));
        if self.lines.len() == MAX_LINES {
            self.lines.remove(0);
        }
        self.lines.push(line);
    }

    /// The error for the caller.
    pub(super) fn refusal(mut self, target: &Target) -> CallError {
        self.end_line();
        let has = |text: &str| self.lines.iter().any(|line| line.contains(text));
        let error = if has("REMOTE HOST IDENTIFICATION HAS CHANGED") {
            self.changed_key_error(target)
        } else if has("host key is known for") {
            self.unknown_key_error(target, "")
        } else if has("Host key verification failed") {
            self.unknown_key_error(target, ", or of a jump host,")
        } else if let Some(line) = self.last("Permission denied (") {
            self.denied_error(target, line)
        } else if has("Too many authentication failures") {
            CallError::new(ErrorCode::Forbidden, format!("{target} refused the login after too many keys were offered"))
                .hint("Nothing was run. The owner of this machine can configure the right key: `IdentityFile` and `IdentitiesOnly yes` for this host in ~/.ssh/config.")
        } else if let Some(line) = self.last("Could not resolve hostname") {
            CallError::new(ErrorCode::NotFound, self.line_text(line))
                .hint("Nothing was run. Check the name: it must be a host that this machine can resolve, or an alias in its ssh configuration.")
        } else {
            let line =
                self.lines.iter().rev().find(|line| !line.starts_with("debug") && !line.trim().is_empty());
            let why = line.map_or_else(String::new, |line| format!(": {}", self.line_text(line)));
            CallError::new(ErrorCode::Unavailable, format!("{target} cannot be connected to{why}"))
                .hint("Nothing was run. Try again later, or check whether the host is up and can be reached from this machine.")
        };
        error.before_it_ran()
    }

    fn changed_key_error(&self, target: &Target) -> CallError {
        let message = format!(
            "the host key of {target} has changed: it is another machine, it was reinstalled, or the connection is intercepted{}",
            self.offered_key()
        );
        CallError::new(ErrorCode::Forbidden, message).hint(format!(
            "Nothing was run, and nothing was sent to the host. Only the owner of this machine can resolve this: compare the \
             fingerprint with what the host itself shows (`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`), and if it \
             matches, run `ssh-keygen -R {}` and then `{}` once, as the user of the node.",
            shell::word(&known_hosts_name(target)),
            manual_command(target)
        ))
    }

    fn unknown_key_error(&self, target: &Target, or: &str) -> CallError {
        let message =
            format!("the host key of {target}{or} is not known on this machine{}", self.offered_key());
        CallError::new(ErrorCode::Forbidden, message).hint(format!(
            "Nothing was run, and nothing was sent to the host. The owner of this machine can run `{}` once as the user of the \
             node, compare the fingerprint with what the host itself shows, and confirm it.",
            manual_command(target)
        ))
    }

    fn denied_error(&self, target: &Target, line: &str) -> CallError {
        let offered = line.rsplit_once('(').map_or("", |(_, rest)| rest.trim_end_matches(['.', ')']));
        let only_passwords = !offered.is_empty()
            && offered.split(',').all(|way| matches!(way, "password" | "keyboard-interactive"));
        if only_passwords {
            return CallError::new(
                ErrorCode::Forbidden,
                format!("{target} accepts passwords only, and ssh_exec never uses passwords"),
            )
            .hint(
                "Nothing was run. The owner of this machine can set up a key: `ssh-copy-id` to the host, or an agent.",
            );
        }
        let message =
            format!("{target} refused the login: it accepts none of this machine's keys for this user");
        CallError::new(ErrorCode::Forbidden, message).hint(
            "Nothing was run. Check `user`. Otherwise, the owner of this machine can add its key to authorized_keys on the host, or \
             load it into the agent of the node's user; a key with a passphrase works with an agent only.",
        )
    }

    /// The key that the host presented last; with jump hosts, that of the refused host.
    fn offered_key(&self) -> String {
        let shown = self.lines.iter().rev().find_map(|line| line.split_once("Server host key: "));
        shown.map_or_else(String::new, |(_, key)| format!("; it presents {}", cut(key.trim(), 200)))
    }

    fn last(&self, text: &str) -> Option<&str> {
        self.lines.iter().rev().map(String::as_str).find(|line| line.contains(text))
    }

    fn line_text(&self, line: &str) -> String {
        cut(line.trim().trim_start_matches("ssh: "), 300)
    }
}

/// The name in known_hosts.
fn known_hosts_name(target: &Target) -> String {
    match target.port {
        Some(port) if port != 22 => format!("[{}]:{port}", target.host),
        _ => target.host.clone(),
    }
}

/// The ssh command line for a person.
fn manual_command(target: &Target) -> String {
    let mut line = "ssh ".to_owned();
    if let Some(port) = target.port {
        line.push_str(&format!("-p {port} "));
    }
    if let Some(user) = &target.user {
        line.push_str(&format!("{user}@"));
    }
    line.push_str(&target.host);
    line
}

#[cfg(test)]
mod tests;
