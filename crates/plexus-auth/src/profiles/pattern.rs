//! Names in a profile, brought into one form: names and globs of tools, and servers with their groups.
//!
//! A name is canonicalised when it is read, as far as that needs no list of tools: `mcp:my server:issues.list` is
//! `mcp__my_server__issues_list`. A glob that does not begin with `mcp__` or `mcp:` is about tools of the hub only, so
//! that no server can choose a name that one happens to fit.

use plexus_proto::tool_name::{self, PREFIX, SEPARATOR};

/// Longest name or glob.
const MAX_LENGTH: usize = 200;
/// Prefix of a name with colons.
const COLONS: &str = "mcp:";

/// An entry of a list of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// As the file has it.
    pub(super) written: String,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// One tool.
    Name(String),
    /// Tools of the hub.
    Hub(String),
    /// Tools of other servers.
    Upstream(String),
}

impl Pattern {
    /// Else what is wrong with it.
    pub(super) fn parse(written: &str) -> Result<Self, String> {
        if written.trim().is_empty() || written.trim() != written || written.contains(char::is_control) {
            return Err("is no name of a tool: it is empty, or has blanks around it".to_owned());
        }
        if written.len() > MAX_LENGTH {
            return Err(format!("is no name of a tool: it has more than {MAX_LENGTH} characters"));
        }
        let parts = match written.strip_prefix(COLONS) {
            Some(rest) => Some(rest.split_once(':').unwrap_or((rest, ""))),
            None => tool_name::split(written),
        };
        let kind = match (written.contains('*'), parts) {
            (false, Some((server, tool))) if !tool.is_empty() => {
                let slug = tool_name::slug(server).ok_or_else(|| no_server(server))?;
                Kind::Name(tool_name::canonical(&slug, tool))
            }
            (false, _) => Kind::Name(written.to_owned()),
            (true, Some((server, tool))) => Kind::Upstream(upstream_glob(server, tool)?),
            (true, None) if written.starts_with(PREFIX) => Kind::Upstream(written.to_owned()),
            (true, None) => Kind::Hub(written.to_owned()),
        };
        Ok(Self { written: written.to_owned(), kind })
    }

    /// Whether it stands for all tools of the hub or of other servers: then it is right also when there are none.
    pub(super) fn is_everything(&self) -> bool {
        matches!(&self.kind, Kind::Hub(pattern) if pattern == "*")
            || matches!(&self.kind, Kind::Upstream(pattern) if pattern == "mcp__*" || pattern == "mcp__*__*")
    }
}

/// A server's part is as a slug is, unless it is a glob itself.
fn upstream_glob(server: &str, tool: &str) -> Result<String, String> {
    let slug = match server.contains('*') {
        true => server.to_owned(),
        false => tool_name::slug(server).ok_or_else(|| no_server(server))?,
    };
    let tool: Vec<String> = tool.split('*').map(tool_name::sanitized).collect();
    Ok(match tool.join("*").as_str() {
        "" => format!("{PREFIX}{slug}"),
        tool => format!("{PREFIX}{slug}{SEPARATOR}{tool}"),
    })
}

fn no_server(server: &str) -> String {
    format!("{server:?} is no name of a server: it has neither letters nor digits")
}

/// An entry of `mcp_servers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) written: String,
    pub(super) slug: String,
    /// None: all its tools, also those in no group.
    pub(super) groups: Option<Vec<String>>,
}

impl Server {
    /// Else what is wrong with it.
    pub(super) fn parse(written: &str, groups: Vec<String>) -> Result<Self, String> {
        if written.contains('*') {
            return Err(
                "names one server; for the tools of all, put \"mcp__*\" into enabled_tools".to_owned()
            );
        }
        let slug = tool_name::slug(written).ok_or_else(|| no_server(written))?;
        let groups = (!groups.iter().any(|group| group == "*")).then_some(groups);
        Ok(Self { written: written.to_owned(), slug, groups })
    }
}
