//! Selects the tools that a profile shows.

use std::collections::{BTreeMap, BTreeSet};

use plexus_kit::config::nearest;
use plexus_kit::glob;
use plexus_proto::tool_name::{self, PREFIX, SEPARATOR};

use super::pattern::{Kind, Pattern, Server};
use super::{Profile, Profiles};

/// The properties of a tool that profiles depend on.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'t> {
    /// Its canonical name.
    pub name: &'t str,
    /// The name in tool lists, which may be shorter.
    pub listed: &'t str,
    /// The upstream server of the tool; `None` for a tool of the hub.
    pub server: Option<CandidateServer<'t>>,
    /// Whether the tool starts agents, which sub-agents never may.
    pub starts_agents: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct CandidateServer<'t> {
    pub slug: &'t str,
    /// Groups in the server's configuration that contain the tool.
    pub groups: &'t [String],
}

/// The result of applying a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSelection {
    /// Canonical names.
    pub tools: BTreeSet<String>,
    /// The subset shown in lists; `None` for all. Unlisted tools can still be called.
    pub listed: Option<BTreeSet<String>>,
    /// The subset selected by `mcp_servers`, by server name as in the file.
    pub servers: BTreeMap<String, BTreeSet<String>>,
    /// Names that match no tool. The tools may appear later, so these are not errors.
    pub warnings: Vec<String>,
}

impl Profiles {
    /// The tools shown to a token of this profile: none if the profile is unknown or invalid.
    #[must_use]
    pub fn shown(&self, id: &str, candidates: &[Candidate<'_>]) -> ToolSelection {
        match self.find(id) {
            Ok(profile) => profile.shown(candidates),
            Err(why) => ToolSelection { warnings: vec![why], ..ToolSelection::default() },
        }
    }
}

impl Profile {
    /// The tools selected by `enabled_tools` and `mcp_servers`.
    #[must_use]
    pub fn shown(&self, candidates: &[Candidate<'_>]) -> ToolSelection {
        let index = Index::new(candidates);
        let mut selection = self.enabled(&index);
        for server in &self.servers {
            index.select_server(server, &mut selection);
        }
        self.list(&index, &mut selection);
        selection
    }

    /// Selects the listed tools among the chosen ones.
    fn list(&self, index: &Index<'_>, selection: &mut ToolSelection) {
        if !self.thin {
            if !self.pinned.is_empty() {
                selection.warnings.push("pinned: has no effect without \"thin\": true".to_owned());
            }
            return;
        }
        let mut pinned = ToolSelection::default();
        index.select("pinned", &self.pinned, &mut pinned);
        let (mut listed, beyond): (BTreeSet<String>, BTreeSet<String>) =
            pinned.tools.into_iter().partition(|name| selection.tools.contains(name));
        selection.warnings.extend(pinned.warnings);
        let beyond = beyond.iter().map(|name| format!("pinned: the profile does not show {name}"));
        selection.warnings.extend(beyond);
        listed.extend(index.discovery_tools());
        selection.listed = Some(listed);
    }

    /// The tools selected by `enabled_tools`, by default all of the hub's own. A thin profile also includes
    /// the tools that find and call unlisted ones.
    fn enabled(&self, index: &Index<'_>) -> ToolSelection {
        let mut selection = ToolSelection::default();
        match &self.enabled_tools {
            Some(patterns) => index.select("enabled_tools", patterns, &mut selection),
            None => {
                let own = index.candidates.iter().filter(|tool| tool.server.is_none());
                selection.tools.extend(own.map(|tool| tool.name.to_owned()));
            }
        }
        if self.thin {
            selection.tools.extend(index.discovery_tools());
        }
        selection
    }

    /// The tools shown to a sub-agent: those of the profile that `subagent_tools` selects; if it is empty,
    /// those that `enabled_tools` selects, without the tools of `mcp_servers`. Never a tool that starts
    /// agents.
    #[must_use]
    pub fn subagent_view(&self, candidates: &[Candidate<'_>]) -> ToolSelection {
        let index = Index::new(candidates);
        let mut selection = ToolSelection::default();
        let mut tools;
        if self.subagent_tools.is_empty() {
            tools = self.enabled(&index).tools;
        } else {
            tools = self.shown(candidates).tools;
            index.select("subagent_tools", &self.subagent_tools, &mut selection);
            let beyond = selection.tools.iter().filter(|name| !tools.contains(*name));
            selection.warnings.extend(
                beyond.map(|name| format!("subagent_tools: the profile itself does not show {name}")),
            );
            tools.retain(|name| selection.tools.contains(name));
        }
        for spawning in candidates.iter().filter(|tool| tool.starts_agents) {
            tools.remove(spawning.name);
        }
        ToolSelection { tools, ..selection }
    }
}

/// The available tools, indexed by their names.
struct Index<'c> {
    candidates: &'c [Candidate<'c>],
    exact: BTreeMap<&'c str, &'c str>,
    listed: BTreeMap<&'c str, &'c str>,
}

impl<'c> Index<'c> {
    fn new(candidates: &'c [Candidate<'c>]) -> Self {
        Self {
            candidates,
            exact: candidates.iter().map(|tool| (tool.name, tool.name)).collect(),
            listed: candidates.iter().map(|tool| (tool.listed, tool.name)).collect(),
        }
    }

    /// The hub's tools for finding and calling other tools.
    fn discovery_tools(&self) -> impl Iterator<Item = String> {
        let existing = |name: &&str| self.exact.contains_key(name);
        [tool_name::SEARCH, tool_name::CALL].into_iter().filter(existing).map(str::to_owned)
    }

    fn select(&self, list: &str, patterns: &[Pattern], selection: &mut ToolSelection) {
        for pattern in patterns {
            match self.resolve(pattern) {
                Ok(names) => selection.tools.extend(names.into_iter().map(str::to_owned)),
                Err(why) => selection.warnings.push(format!("{list}: {why}")),
            }
        }
    }

    fn resolve(&self, pattern: &Pattern) -> Result<Vec<&'c str>, String> {
        let (requested, upstream) = match &pattern.kind {
            Kind::Name(name) => return self.resolve_name(name, &pattern.written).map(|name| vec![name]),
            Kind::Hub(requested) => (requested, false),
            Kind::Upstream(requested) => (requested, true),
        };
        let fitting =
            |tool: &&Candidate<'_>| tool.server.is_some() == upstream && glob::matches(requested, tool.name);
        let names: Vec<_> = self.candidates.iter().filter(fitting).map(|tool| tool.name).collect();
        match names.is_empty() && !pattern.is_everything() {
            true => Err(format!("nothing matches {} at present", pattern.written)),
            false => Ok(names),
        }
    }

    /// Resolves a name: exact, as listed, with `-` for `_`, or with single underscores, in this order.
    /// Ambiguous names are rejected.
    fn resolve_name(&self, name: &str, written: &str) -> Result<&'c str, String> {
        if let Some(found) = self.exact.get(name).or_else(|| self.listed.get(name)) {
            return Ok(found);
        }
        let requested = normalized(name);
        let is_variant = |tool: &&Candidate<'_>| {
            normalized(tool.name) == requested || normalized(tool.listed) == requested
        };
        let is_short =
            |tool: &&Candidate<'_>| tool.server.is_some() && single_underscored(tool.name) == requested;
        for found in [self.all(is_variant), self.all(is_short)] {
            match found.as_slice() {
                [] => {}
                [only] => return Ok(only),
                several => {
                    return Err(format!("{written} is ambiguous ({}): choose one", several.join(" or ")));
                }
            }
        }
        let part_of =
            |tool: &&Candidate<'_>| tool_name::split(tool.name).is_some_and(|(_, part)| part == name);
        let suggestion = match self.all(part_of).as_slice() {
            [] => nearest(name, self.candidates.iter().map(|tool| tool.name)).map(str::to_owned),
            parts => Some(parts.join(" or ")),
        };
        let suggestion =
            suggestion.map(|suggestion| format!("; did you mean {suggestion}?")).unwrap_or_default();
        Err(format!("there is no tool {written} at present{suggestion}"))
    }

    fn all(&self, test: impl Fn(&&Candidate<'_>) -> bool) -> Vec<&'c str> {
        self.candidates.iter().filter(test).map(|tool| tool.name).collect()
    }

    fn select_server(&self, server: &Server, selection: &mut ToolSelection) {
        let tools: Vec<(&str, &[String])> = self
            .candidates
            .iter()
            .filter_map(|tool| {
                tool.server.filter(|of| of.slug == server.slug).map(|of| (tool.name, of.groups))
            })
            .collect();
        let mut chosen = BTreeSet::new();
        if tools.is_empty() {
            selection
                .warnings
                .push(format!("mcp_servers: there are no tools of {} at present", server.written));
        } else if let Some(groups) = &server.groups {
            for group in groups {
                let of_group = tools.iter().filter(|(_, groups)| groups.contains(group));
                let count = of_group.map(|(name, _)| chosen.insert((*name).to_owned())).count();
                if count == 0 {
                    let known = tools.iter().flat_map(|(_, groups)| groups.iter()).map(String::as_str);
                    let suggestion =
                        nearest(group, known).map(|suggestion| format!("; did you mean {suggestion}?"));
                    selection.warnings.push(format!(
                        "mcp_servers: no tool of {} is in a group {group} at present{}",
                        server.written,
                        suggestion.unwrap_or_default()
                    ));
                }
            }
        } else {
            chosen.extend(tools.iter().map(|(name, _)| (*name).to_owned()));
        }
        selection.tools.extend(chosen.iter().cloned());
        selection.servers.insert(server.written.clone(), chosen);
    }
}

/// Unifies `-` and `_`, which models and people confuse.
fn normalized(name: &str) -> String {
    name.replace('-', "_")
}

/// The normalized `mcp_<server>_<tool>` form of a canonical name.
fn single_underscored(name: &str) -> String {
    let rest = name.strip_prefix(PREFIX).unwrap_or(name);
    normalized(&format!("mcp_{}", rest.replacen(SEPARATOR, "_", 1)))
}
