//! Why there is no connection, from what ssh said.
//!
//! At the level of detail that is asked for, ssh also names the files of keys. So nothing that it says is passed on but lines
//! that are known to be about the refusal, and of unknown failures the last line that is no detail.

use plexus_kit::foreign_text::{clean, cut};
use plexus_kit::shell;
use plexus_proto::ErrorCode;
use plexus_tools::CallError;

use super::target::Target;

/// Lines that are kept of what it says.
const LINES: usize = 400;
/// Bytes of one.
const LINE: usize = 1024;

/// What ssh said until the connection was there.
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
                byte if self.open.len() < LINE => self.open.push(*byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self) {
        let line = clean(&std::mem::take(&mut self.open));
        if self.lines.len() == LINES {
            self.lines.remove(0);
        }
        self.lines.push(line);
    }

    /// What a caller is told.
    pub(super) fn refusal(mut self, target: &Target) -> CallError {
        self.end_line();
        let has = |text: &str| self.lines.iter().any(|line| line.contains(text));
        let error = if has("REMOTE HOST IDENTIFICATION HAS CHANGED") {
            self.changed(target)
        } else if has("host key is known for") {
            self.unknown(target, "")
        } else if has("Host key verification failed") {
            self.unknown(target, ", or of a host on the way to it,")
        } else if let Some(line) = self.last("Permission denied (") {
            self.denied(target, line)
        } else if has("Too many authentication failures") {
            CallError::new(ErrorCode::Forbidden, format!("{target} gave up after too many keys were offered"))
                .hint("Nothing was run. The owner of this machine can name the right one: `IdentityFile` and `IdentitiesOnly yes` for this host in ~/.ssh/config.")
        } else if let Some(line) = self.last("Could not resolve hostname") {
            CallError::new(ErrorCode::NotFound, self.said(line))
                .hint("Nothing was run. Look at the name; it is a host that this machine can find, or an alias in its ssh configuration.")
        } else {
            let line =
                self.lines.iter().rev().find(|line| !line.starts_with("debug") && !line.trim().is_empty());
            let why = line.map_or_else(String::new, |line| format!(": {}", self.said(line)));
            CallError::new(ErrorCode::Unavailable, format!("{target} cannot be connected to{why}"))
                .hint("Nothing was run. Try again later, or look whether the host is up and can be reached from this machine.")
        };
        error.before_it_ran()
    }

    fn changed(&self, target: &Target) -> CallError {
        let message = format!(
            "the host key of {target} has changed: it is another machine, it was installed anew, or someone is in between{}",
            self.offered()
        );
        CallError::new(ErrorCode::Forbidden, message).hint(format!(
            "Nothing was run, and nothing was sent there. Only the owner of this machine can decide this: compare the \
             fingerprint with what the host itself shows (`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`), and if it is \
             right run `ssh-keygen -R {}` and then `{}` once, as the user of the node.",
            shell::word(&known_name(target)),
            by_hand(target)
        ))
    }

    fn unknown(&self, target: &Target, or: &str) -> CallError {
        let message = format!("the host key of {target}{or} is not known on this machine{}", self.offered());
        CallError::new(ErrorCode::Forbidden, message).hint(format!(
            "Nothing was run, and nothing was sent there. The owner of this machine can run `{}` once as the user of the \
             node, compare the fingerprint with what the host itself shows, and say yes.",
            by_hand(target)
        ))
    }

    fn denied(&self, target: &Target, line: &str) -> CallError {
        let offered = line.rsplit_once('(').map_or("", |(_, rest)| rest.trim_end_matches(['.', ')']));
        let only_passwords = !offered.is_empty()
            && offered.split(',').all(|way| matches!(way, "password" | "keyboard-interactive"));
        if only_passwords {
            return CallError::new(
                ErrorCode::Forbidden,
                format!("{target} takes passwords only, and ssh_exec never gives one"),
            )
            .hint(
                "Nothing was run. The owner of this machine can set up a key: `ssh-copy-id` to the host, or an agent.",
            );
        }
        let message = format!(
            "{target} did not accept the login: none of the keys of this machine is accepted there for this user"
        );
        CallError::new(ErrorCode::Forbidden, message).hint(
            "Nothing was run. Look at `user`. Else the owner of this machine can add its key to authorized_keys on the host, or \
             load it into the agent of the node's user; a key with a passphrase works with an agent only.",
        )
    }

    /// The key that the host showed last: with jump hosts, that of the one which was refused.
    fn offered(&self) -> String {
        let shown = self.lines.iter().rev().find_map(|line| line.split_once("Server host key: "));
        shown.map_or_else(String::new, |(_, key)| format!("; it shows {}", cut(key.trim(), 200)))
    }

    fn last(&self, text: &str) -> Option<&str> {
        self.lines.iter().rev().map(String::as_str).find(|line| line.contains(text))
    }

    fn said(&self, line: &str) -> String {
        cut(line.trim().trim_start_matches("ssh: "), 300)
    }
}

/// As it stands in known_hosts.
fn known_name(target: &Target) -> String {
    match target.port {
        Some(port) if port != 22 => format!("[{}]:{port}", target.host),
        _ => target.host.clone(),
    }
}

/// What a person types to get there.
fn by_hand(target: &Target) -> String {
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
