//! Where a caller wants to go: a host, and perhaps a user and a port. Never an option.
//!
//! What a caller says gets onto a command line and, through the owner's configuration, into the command lines of others
//! (`ProxyCommand … %h %r`, `Match exec`). So it is not escaped but limited to letters that mean nothing to any shell and to
//! ssh: no dash in front, no `@`, no `%`, no space, no line break.

use std::fmt;
use std::net::Ipv6Addr;

use plexus_kit::glob;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, arguments};

use super::args::Args;
use super::{NAME, wrong};
use crate::policy::SshRules;

/// A name of the DNS is no longer.
const MAX_HOST: usize = 253;
const MAX_USER: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) user: Option<String>,
    pub(super) port: Option<u16>,
}

impl Target {
    /// What the arguments name, if the policy of the machine lets it be used.
    pub(super) fn of(args: &Args, rules: &SshRules) -> Result<Self, CallError> {
        let given =
            args.host.as_deref().ok_or_else(|| arguments::missing(NAME, "host", args.action.name()))?;
        let target = Self {
            host: host(given).ok_or_else(|| {
                wrong(
                    "host",
                    "expected a name of letters, digits, dots, dashes and underscores, or an address; user and port are \
                     arguments of their own, and options cannot be given",
                )
            })?,
            user: args.user.as_deref().map(user).transpose()?,
            port: args.port,
        };
        // The name as it is given. What it stands for is in the owner's ssh configuration, which is theirs as the policy is.
        if !rules.hosts.iter().any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), &target.host)) {
            let message =
                format!("the policy of this machine does not let ssh_exec use the host {:?}", target.host);
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

/// In lower case: names of hosts are the same in any, and ssh and the policy are to see one.
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
            Err(wrong("user", "expected a user of letters, digits and . _ + -, not beginning with a dash"))
        }
    }
}

/// As a person writes it.
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
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_addresses() {
        for good in ["nas", "Nas.Example.NET", "10.0.0.7", "::1", "fe80::1", "build_2", "a-b"] {
            assert_eq!(host(good), Some(good.to_ascii_lowercase()), "{good}");
        }
    }

    #[test]
    fn whatever_ssh_or_a_shell_could_take_for_more_is_no_host() {
        for bad in [
            "",
            "-oProxyCommand=x",
            "-F/tmp/x",
            "--",
            "root@nas",
            "ssh://nas",
            "nas:22",
            "[::1]",
            "fe80::1%eth0",
            "a b",
            "a\nb",
            "a\0b",
            "nas;id",
            "$(id)",
            "`id`",
            "%h",
            "a%n",
            "nas,other",
            "nas/x",
            "*",
            "?",
            "!nas",
            "näs",
            ".nas",
            "_nas",
            "a\tb",
            "a'b",
            "a\"b",
            "a\\b",
        ] {
            assert_eq!(host(bad), None, "{bad:?}");
        }
        assert_eq!(host(&"a".repeat(MAX_HOST + 1)), None);
    }

    #[test]
    fn users_are_plain_names() {
        for good in ["root", "_apt", "first.last", "a-b", "x+y"] {
            assert_eq!(user(good).unwrap(), good);
        }
        for bad in ["", "-l", "-oProxyCommand=x", "a b", "a@b", "a;b", "$(id)", "a\nb", "%r", "a'b", "ä"] {
            assert!(user(bad).is_err(), "{bad:?}");
        }
    }
}
