//! Scopes: `verb:resource` with `*` for any run of characters, or `admin` for everything.
//!
//! A resource may be narrowed with a dot: `call:todo` grants every action of `todo`, `call:todo.list` only
//! that one. A tool of an upstream server may be written in any form that [`tool_name::canonicalized`]
//! accepts; its canonical name is stored, shown and compared.

use std::fmt;
use std::str::FromStr;

use plexus_kit::glob::matches as glob;
use plexus_proto::tool_name;

const MAX_LENGTH: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a scope; write `verb:resource`, such as call:* or call:todo, or `admin`")]
pub struct InvalidScope(String);

impl Scope {
    /// Grants everything.
    pub const ADMIN: &str = "admin";

    fn is_admin(&self) -> bool {
        self.0 == Self::ADMIN
    }

    /// Whether this scope grants `requested`, which may itself contain stars.
    fn covers(&self, requested: &str) -> bool {
        if self.is_admin() {
            return true;
        }
        if glob(&self.0, requested) {
            return true;
        }
        // `call:todo` covers `call:todo.list`.
        requested.match_indices('.').any(|(dot, _)| glob(&self.0, &requested[..dot]))
    }
}

impl FromStr for Scope {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        let invalid = || InvalidScope(text.chars().take(MAX_LENGTH).collect());
        if text == Self::ADMIN {
            return Ok(Self(text.to_owned()));
        }
        let (verb, resource) = text.split_once(':').ok_or_else(invalid)?;
        let verb_ok = !verb.is_empty() && verb.bytes().all(|b| b.is_ascii_lowercase() || b == b'*');
        let resource_ok = !resource.is_empty()
            && resource.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:*/".contains(&b));
        if !verb_ok || !resource_ok || text.len() > MAX_LENGTH {
            return Err(invalid());
        }
        Ok(match verb {
            "call" => Self(format!("call:{}", tool_name::canonicalized(resource))),
            _ => Self(text.to_owned()),
        })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Known verbs, and the resources of verbs with a fixed list.
const VERBS: &[(&str, &[&str])] = &[
    ("call", &[]),
    ("manage", &["nodes"]),
    ("node", &[]),
    (
        "read",
        &[
            "agents",
            "audit",
            "config",
            "metrics",
            "nodes",
            "profiles",
            "sessions",
            "status",
            "tokens",
            "upstreams",
        ],
    ),
    ("token", &["create", "revoke"]),
    ("write", &["sessions"]),
];

impl Scope {
    /// Rejects a scope that can never grant anything, because no operation requires it; it is most likely
    /// misspelt.
    pub(crate) fn check_known(&self) -> Result<(), String> {
        let Some((verb, resource)) = self.0.split_once(':') else { return Ok(()) };
        if verb.contains('*') {
            return Ok(());
        }
        let Some((_, resources)) = VERBS.iter().find(|(known, _)| *known == verb) else {
            let verbs: Vec<&str> = VERBS.iter().map(|(verb, _)| *verb).collect();
            return Err(format!(
                "the scope {self} grants nothing: {verb} is not one of {}",
                verbs.join(", ")
            ));
        };
        if verb == "call" {
            return check_tool(resource).map_err(|why| format!("the scope {self} grants nothing: {why}"));
        }
        if resources.is_empty() || resources.iter().any(|known| glob(resource, known)) {
            return Ok(());
        }
        let all: Vec<String> = resources.iter().map(|resource| format!("{verb}:{resource}")).collect();
        Err(format!("the scope {self} grants nothing; valid scopes: {}", all.join(", ")))
    }
}

/// Rejects syntax that remains after canonicalization and so occurs in no tool name.
fn check_tool(resource: &str) -> Result<(), &'static str> {
    if resource.contains([':', '/']) {
        return Err("tools of servers are named mcp__<server>__<tool>, with or without stars");
    }
    if resource.starts_with("mcp__plexus__") {
        return Err("mcp__plexus__ is a prefix added by clients; omit it");
    }
    check_server_feature(resource)
}

/// Checks a scope for a server's other features: `mcp__<server>.resources`, `mcp__<server>.prompts`, or one
/// prompt.
fn check_server_feature(resource: &str) -> Result<(), &'static str> {
    let Some((server, rest)) = resource
        .strip_prefix(tool_name::PREFIX)
        .filter(|rest| !rest.contains(tool_name::SEPARATOR))
        .and_then(|rest| rest.split_once('.'))
    else {
        return Ok(());
    };
    if !server.contains('*') && tool_name::slug(server).as_deref() != Some(server) {
        return Err(
            "write the server with letters, digits and single underscores: my-server becomes mcp__my_server",
        );
    }
    let (facility, part) = rest.split_once('.').unwrap_or((rest, ""));
    if !glob(facility, "prompts") && (!glob(facility, "resources") || !part.is_empty()) {
        return Err("besides its tools a server has mcp__<server>.resources, mcp__<server>.prompts and \
             mcp__<server>.prompts.<prompt>");
    }
    Ok(())
}

/// The scopes of a token.
///
/// ```
/// let set = plexus_auth::ScopeSet::parse(&["call:todo", "read:*"])?;
/// assert!(set.allows("call:todo.list"));
/// assert!(set.allows("read:audit"));
/// assert!(!set.allows("call:scratchpad"));
/// # Ok::<(), plexus_auth::InvalidScope>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScopeSet(Vec<Scope>);

impl ScopeSet {
    pub fn parse<S: AsRef<str>>(scopes: &[S]) -> Result<Self, InvalidScope> {
        scopes.iter().map(|scope| scope.as_ref().parse()).collect::<Result<_, _>>().map(Self)
    }

    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.0.iter().any(Scope::is_admin)
    }

    /// Whether `requested`, such as `call:todo.list`, is granted.
    #[must_use]
    pub fn allows(&self, requested: &str) -> bool {
        self.0.iter().any(|scope| scope.covers(requested))
    }

    /// Whether any scope with this verb is granted, such as any `node`.
    #[must_use]
    pub fn allows_some(&self, verb: &str) -> bool {
        let is_of = |scope: &Scope| scope.0.split_once(':').is_some_and(|(of, _)| glob(of, verb));
        self.0.iter().any(|scope| scope.is_admin() || is_of(scope))
    }

    /// The first scope of `other` that this set does not cover.
    #[must_use]
    pub fn first_beyond<'o>(&self, other: &'o Self) -> Option<&'o Scope> {
        other.0.iter().find(|scope| !self.allows(&scope.0))
    }

    /// Rejects the first scope that can never grant anything.
    pub(crate) fn check_known(&self) -> Result<(), String> {
        self.0.iter().try_for_each(Scope::check_known)
    }

    /// The scopes in `requested` that this set grants.
    #[must_use]
    pub fn keep_allowed(&self, requested: &[&str]) -> Vec<String> {
        requested.iter().filter(|scope| self.allows(scope)).map(|scope| (*scope).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests;
