//! Names in a profile, parsed and canonicalized: names and globs of tools, and servers with their groups.
//!
//! Names are canonicalized when they are read, as far as possible without a list of tools: `mcp:my
//! server:issues.list` becomes `mcp__my_server__issues_list`. A glob without the prefix `mcp__` or `mcp:`
//! matches only tools of the hub, so that no server can choose a tool name that happens to match.

use plexus_proto::tool_name::{self, PREFIX, SEPARATOR};

/// Maximum length of a name or glob.
const MAX_LENGTH: usize = 200;
/// Prefix of the notation with colons.
const COLONS: &str = "mcp:";

/// An entry in a list of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// As written in the file.
    pub(super) written: String,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A single tool.
    Name(String),
    /// A glob for tools of the hub.
    Hub(String),
    /// A glob for tools of upstream servers.
    Upstream(String),
}

impl Pattern {
    /// Parses an entry, or returns what is wrong with it.
    pub(super) fn parse(written: &str) -> Result<Self, String> {
        if written.trim().is_empty() || written.trim() != written || written.contains(char::is_control) {
            return Err(
                "is not a valid tool name: it is empty, or has control characters or surrounding blanks"
                    .to_owned(),
            );
        }
        if written.len() > MAX_LENGTH {
            return Err(format!("is not a valid tool name: it has more than {MAX_LENGTH} characters"));
        }
        let parts = match written.strip_prefix(COLONS) {
            Some(rest) => Some(rest.split_once(':').unwrap_or((rest, ""))),
            None => tool_name::split(written),
        };
        let kind = match (written.contains('*'), parts) {
            (false, Some((server, tool))) if !tool.is_empty() => {
                let slug = tool_name::slug(server).ok_or_else(|| invalid_server(server))?;
                Kind::Name(tool_name::canonical(&slug, tool))
            }
            (false, _) => Kind::Name(written.to_owned()),
            (true, Some((server, tool))) => Kind::Upstream(upstream_glob(server, tool)?),
            (true, None) if written.starts_with(PREFIX) => Kind::Upstream(written.to_owned()),
            (true, None) => Kind::Hub(written.to_owned()),
        };
        Ok(Self { written: written.to_owned(), kind })
    }

    /// Whether it selects all tools of the hub or of upstream servers; matching none is fine then.
    pub(super) fn is_everything(&self) -> bool {
        matches!(&self.kind, Kind::Hub(pattern) if pattern == "*")
            || matches!(&self.kind, Kind::Upstream(pattern) if pattern == "mcp__*" || pattern == "mcp__*__*")
    }
}

/// Canonicalizes the server part to a slug, unless it contains a glob.
fn upstream_glob(server: &str, tool: &str) -> Result<String, String> {
    let slug = match server.contains('*') {
        true => server.to_owned(),
        false => tool_name::slug(server).ok_or_else(|| invalid_server(server))?,
    };
    let tool: Vec<String> = tool.split('*').map(tool_name::sanitized).collect();
    Ok(match tool.join("*").as_str() {
        "" => format!("{PREFIX}{slug}"),
        tool => format!("{PREFIX}{slug}{SEPARATOR}{tool}"),
    })
}

fn invalid_server(server: &str) -> String {
    format!("{server:?} is not a valid server name: it contains no letters or digits")
}

/// An entry of `mcp_servers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) written: String,
    pub(super) slug: String,
    /// `None` selects all its tools, including those without a group.
    pub(super) groups: Option<Vec<String>>,
}

impl Server {
    /// Parses an entry, or returns what is wrong with it.
    pub(super) fn parse(written: &str, groups: Vec<String>) -> Result<Self, String> {
        if written.contains('*') {
            return Err(
                "must name a single server; for the tools of all servers, add \"mcp__*\" to enabled_tools"
                    .to_owned(),
            );
        }
        let slug = tool_name::slug(written).ok_or_else(|| invalid_server(written))?;
        let groups = (!groups.iter().any(|group| group == "*")).then_some(groups);
        Ok(Self { written: written.to_owned(), slug, groups })
    }
}
