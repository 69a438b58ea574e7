//! Which of the tools there are a profile shows.

use std::collections::{BTreeMap, BTreeSet};

use plexus_kit::config::nearest;
use plexus_kit::glob;
use plexus_proto::tool_name::{self, PREFIX, SEPARATOR};

use super::pattern::{Kind, Pattern, Server};
use super::{Profile, Profiles};

/// A tool, as far as a profile cares.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'t> {
    /// Its canonical name.
    pub name: &'t str,
    /// The name it is listed by, which may be a shorter one.
    pub listed: &'t str,
    /// The other server that it is of.
    pub server: Option<CandidateServer<'t>>,
    /// Whether it starts agents, which a sub-agent never may.
    pub starts_agents: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct CandidateServer<'t> {
    pub slug: &'t str,
    /// Groups of the server's configuration that the tool is in.
    pub groups: &'t [String],
}

/// What was chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// Canonical names.
    pub tools: BTreeSet<String>,
    /// Of these, those that lists show; none: all. What is not listed can be called all the same.
    pub listed: Option<BTreeSet<String>>,
    /// Of these, those that `mcp_servers` brought, by server as the file names it.
    pub servers: BTreeMap<String, BTreeSet<String>>,
    /// What names nothing that is there. It may yet come, so it stops nothing.
    pub warnings: Vec<String>,
}

impl Profiles {
    /// What a token of this profile is shown: nothing where there is no such profile, or it cannot be used.
    #[must_use]
    pub fn shown(&self, id: &str, candidates: &[Candidate<'_>]) -> Choice {
        match self.find(id) {
            Ok(profile) => profile.shown(candidates),
            Err(why) => Choice { warnings: vec![why], ..Choice::default() },
        }
    }
}

impl Profile {
    /// Tools that `enabled_tools` names, and tools of `mcp_servers`.
    #[must_use]
    pub fn shown(&self, candidates: &[Candidate<'_>]) -> Choice {
        let index = Index::new(candidates);
        let mut choice = self.enabled(&index);
        for server in &self.servers {
            index.choose_server(server, &mut choice);
        }
        self.list(&index, &mut choice);
        choice
    }

    /// Chooses what lists show of the tools that were chosen.
    fn list(&self, index: &Index<'_>, choice: &mut Choice) {
        if !self.thin {
            if !self.pinned.is_empty() {
                choice.warnings.push("pinned: is of no effect without \"thin\": true".to_owned());
            }
            return;
        }
        let mut pinned = Choice::default();
        index.choose("pinned", &self.pinned, &mut pinned);
        let (mut listed, beyond): (BTreeSet<String>, BTreeSet<String>) =
            pinned.tools.into_iter().partition(|name| choice.tools.contains(name));
        choice.warnings.extend(pinned.warnings);
        let beyond = beyond.iter().map(|name| format!("pinned: the profile does not show {name}"));
        choice.warnings.extend(beyond);
        listed.extend(index.finders());
        choice.listed = Some(listed);
    }

    /// Tools that `enabled_tools` names; without it, all of the hub's own. Where few are listed, what finds and calls the
    /// others belongs to them.
    fn enabled(&self, index: &Index<'_>) -> Choice {
        let mut choice = Choice::default();
        match &self.enabled_tools {
            Some(patterns) => index.choose("enabled_tools", patterns, &mut choice),
            None => {
                let own = index.candidates.iter().filter(|tool| tool.server.is_none());
                choice.tools.extend(own.map(|tool| tool.name.to_owned()));
            }
        }
        if self.thin {
            choice.tools.extend(index.finders());
        }
        choice
    }

    /// What a sub-agent is shown: of what the profile shows, what `subagent_tools` names; where that is empty, what
    /// `enabled_tools` does, without the tools of `mcp_servers`. Never a tool that starts agents.
    #[must_use]
    pub fn subagent_view(&self, candidates: &[Candidate<'_>]) -> Choice {
        let index = Index::new(candidates);
        let mut choice = Choice::default();
        let mut tools;
        if self.subagent_tools.is_empty() {
            tools = self.enabled(&index).tools;
        } else {
            tools = self.shown(candidates).tools;
            index.choose("subagent_tools", &self.subagent_tools, &mut choice);
            let beyond = choice.tools.iter().filter(|name| !tools.contains(*name));
            choice.warnings.extend(
                beyond.map(|name| format!("subagent_tools: the profile itself does not show {name}")),
            );
            tools.retain(|name| choice.tools.contains(name));
        }
        for spawning in candidates.iter().filter(|tool| tool.starts_agents) {
            tools.remove(spawning.name);
        }
        Choice { tools, ..choice }
    }
}

/// The tools there are, by the names they go by.
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

    /// The hub's tools that find and call others.
    fn finders(&self) -> impl Iterator<Item = String> {
        let there = |name: &&str| self.exact.contains_key(name);
        [tool_name::SEARCH, tool_name::CALL].into_iter().filter(there).map(str::to_owned)
    }

    fn choose(&self, list: &str, patterns: &[Pattern], choice: &mut Choice) {
        for pattern in patterns {
            match self.named(pattern) {
                Ok(names) => choice.tools.extend(names.into_iter().map(str::to_owned)),
                Err(why) => choice.warnings.push(format!("{list}: {why}")),
            }
        }
    }

    fn named(&self, pattern: &Pattern) -> Result<Vec<&'c str>, String> {
        let (wanted, upstream) = match &pattern.kind {
            Kind::Name(name) => return self.one(name, &pattern.written).map(|name| vec![name]),
            Kind::Hub(wanted) => (wanted, false),
            Kind::Upstream(wanted) => (wanted, true),
        };
        let fitting =
            |tool: &&Candidate<'_>| tool.server.is_some() == upstream && glob::matches(wanted, tool.name);
        let names: Vec<_> = self.candidates.iter().filter(fitting).map(|tool| tool.name).collect();
        match names.is_empty() && !pattern.is_everything() {
            true => Err(format!("nothing fits {} (yet)", pattern.written)),
            false => Ok(names),
        }
    }

    /// The tool of a name: exact, else as it is listed, else with `-` for `_`, else with single underscores. What could
    /// be two is neither.
    fn one(&self, name: &str, written: &str) -> Result<&'c str, String> {
        if let Some(found) = self.exact.get(name).or_else(|| self.listed.get(name)) {
            return Ok(found);
        }
        let wanted = folded(name);
        let is_variant = |tool: &&Candidate<'_>| folded(tool.name) == wanted || folded(tool.listed) == wanted;
        let is_short = |tool: &&Candidate<'_>| tool.server.is_some() && single(tool.name) == wanted;
        for found in [self.all(is_variant), self.all(is_short)] {
            match found.as_slice() {
                [] => {}
                [only] => return Ok(only),
                several => {
                    return Err(format!("{written} could be {}: name one of them", several.join(" or ")));
                }
            }
        }
        let part_of =
            |tool: &&Candidate<'_>| tool_name::split(tool.name).is_some_and(|(_, part)| part == name);
        let meant = match self.all(part_of).as_slice() {
            [] => nearest(name, self.candidates.iter().map(|tool| tool.name)).map(str::to_owned),
            parts => Some(parts.join(" or ")),
        };
        let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        Err(format!("there is no tool {written} (yet){meant}"))
    }

    fn all(&self, test: impl Fn(&&Candidate<'_>) -> bool) -> Vec<&'c str> {
        self.candidates.iter().filter(test).map(|tool| tool.name).collect()
    }

    fn choose_server(&self, server: &Server, choice: &mut Choice) {
        let tools: Vec<(&str, &[String])> = self
            .candidates
            .iter()
            .filter_map(|tool| {
                tool.server.filter(|of| of.slug == server.slug).map(|of| (tool.name, of.groups))
            })
            .collect();
        let mut chosen = BTreeSet::new();
        if tools.is_empty() {
            choice.warnings.push(format!("mcp_servers: there are no tools of {} (yet)", server.written));
        } else if let Some(groups) = &server.groups {
            for group in groups {
                let of_group = tools.iter().filter(|(_, groups)| groups.contains(group));
                let count = of_group.map(|(name, _)| chosen.insert((*name).to_owned())).count();
                if count == 0 {
                    let known = tools.iter().flat_map(|(_, groups)| groups.iter()).map(String::as_str);
                    let meant = nearest(group, known).map(|meant| format!("; did you mean {meant}?"));
                    choice.warnings.push(format!(
                        "mcp_servers: no tool of {} is in a group {group} (yet){}",
                        server.written,
                        meant.unwrap_or_default()
                    ));
                }
            }
        } else {
            chosen.extend(tools.iter().map(|(name, _)| (*name).to_owned()));
        }
        choice.tools.extend(chosen.iter().cloned());
        choice.servers.insert(server.written.clone(), chosen);
    }
}

/// With one spelling for what models and people exchange.
fn folded(name: &str) -> String {
    name.replace('-', "_")
}

/// `mcp_<server>_<tool>` of a canonical name, folded.
fn single(name: &str) -> String {
    let rest = name.strip_prefix(PREFIX).unwrap_or(name);
    folded(&format!("mcp_{}", rest.replacen(SEPARATOR, "_", 1)))
}
