//! The target of a connection: a host, and optionally a user and a port, but never an option.
//!
//! A caller's text is used on a command line and, through the owner's configuration, on the command lines of other
//! programs (`ProxyCommand … %h %r`, `Match exec`). So it is not escaped but restricted to characters without a
//! meaning in shells and ssh: no leading dash, no `@`, no `%`, no space, no line break.

use std::fmt;
use std::net::Ipv6Addr;

use plexus_kit::glob;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, arguments};

use super::args::Args;
use super::{NAME, wrong};
use crate::policy::SshRules;

/// The maximum length of a DNS name.
const MAX_HOST: usize = 253;
const MAX_USER: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) user: Option<String>,
    pub(super) port: Option<u16>,
}

impl Target {
    /// The target of a call, if the policy of the machine allows it.
    pub(super) fn of(args: &Args, rules: &SshRules) -> Result<Self, CallError> {
        let given =
            args.host.as_deref().ok_or_else(|| arguments::missing(NAME, "host", args.action.name()))?;
        let target = Self {
            host: host(given).ok_or_else(|| {
                wrong(
                    "host",
                    "expected a name of letters, digits, dots, dashes and underscores, or an address; user and port \
                     are separate arguments, and options cannot be given",
                )
            })?,
            user: args.user.as_deref().map(user).transpose()?,
            port: args.port,
        };
        // The policy applies to the name as given. Its meaning is defined in the owner's ssh configuration, which the
        // owner controls like the policy.
        if !rules.hosts.iter().any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), &target.host)) {
            let message = format!(
                "the policy of this machine does not allow ssh_exec to use the host {:?}",
                target.host
            );
            return Err(CallError::new(ErrorCode::Forbidden, message)
                .hint(
                    "Nothing was run. Use another host, or ask the owner of the machine to add it to `hosts` in [ssh] of its \
                     node.toml.",
                )
                .before_it_ran());
        }
        Ok(target)
    }
}

/// Converts to lowercase: host names are case-insensitive, and ssh and the policy must see the same name.
fn host(given: &str) -> Option<String> {
    let is_name = !given.is_empty()
        && given.len() <= MAX_HOST
        && given.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && given.as_bytes()[0].is_ascii_alphanumeric();
    (is_name || given.parse::<Ipv6Addr>().is_ok()).then(|| given.to_ascii_lowercase())
}

fn user(given: &str) -> Result<String, CallError> {
    let is_user = given.len() <= MAX_USER
        && given.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte))
        && given.as_bytes().first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    match is_user {
        true => Ok(given.to_owned()),
        false => {
            Err(wrong("user", "expected a user name of letters, digits and . _ + -, without a leading dash"))
        }
    }
}

/// In the notation for people.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        f.write_str(&self.host)?;
        match self.port {
            Some(port) => write!(f, " port {port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
