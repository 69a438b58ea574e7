//! The tools of one server: its list, filtered and renamed by the rules of its file, under canonical names.
//!
//! Definitions are untrusted: each is checked and bounded, and an unusable one is left out with a warning
//! without affecting the others. Names depend only on the set of tools, never on their order.

pub(super) mod cache;
mod definition;
pub(super) mod hosted;
pub(super) mod injection;
pub(super) mod resources;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plexus_kit::config::nearest;
use plexus_kit::glob;
use plexus_mcp::param_headers::param_headers;
use plexus_proto::api::{INSTRUCTIONS, ToolAnnotations};
use plexus_proto::tool_name;
use plexus_tools::{Access, Placement, ToolSpec, UpstreamTool};
use serde_json::{Map, Value};

use self::injection::Injected;
use crate::client::Definitions;
use crate::config::ServerConfig;
use crate::trust::{MAX_DEFINITION, MAX_NAME};

/// Tools of one server; further ones, in name order, are left out.
const MAX_TOOLS: usize = 1_000;
/// Longest description in bytes; the rest is cut off.
const MAX_DESCRIPTION: usize = 16 << 10;
/// Warnings per list; of further ones only the number is reported.
const MAX_WARNINGS: usize = 20;

/// The data needed to call a tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// The server's own name of the tool.
    pub(super) tool: String,
    /// It may be run again when it is unknown whether it ran.
    pub(super) repeatable: bool,
    /// The server only runs it as a task.
    pub(super) as_task: bool,
    pub(super) injected: Injected,
}

#[derive(Debug, Default)]
pub(super) struct Catalog {
    /// Keyed by canonical name.
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) warnings: Vec<String>,
}

/// A tool that the rules admit.
struct Draft<'d> {
    /// The server's own name.
    tool: &'d str,
    /// The name to use here, before the server's prefix.
    shown: &'d str,
    as_task: bool,
    definition: Map<String, Value>,
}

/// Builds the catalog of trusted tools, and their specs for the registry.
pub(super) fn build(
    config: &ServerConfig,
    definitions: &Definitions,
    is_trusted: impl Fn(&Map<String, Value>) -> bool,
) -> (Catalog, Vec<ToolSpec>) {
    let mut warnings = Vec::new();
    let mut drafts: BTreeMap<&str, Draft<'_>> = BTreeMap::new();
    for definition in definitions {
        match draft(config, definition) {
            Ok(None) => {}
            Ok(Some(_)) if !is_trusted(definition) => {}
            Ok(Some(draft)) if drafts.contains_key(draft.tool) => {
                warnings.push(format!("{:?} is listed twice; the first one is used", draft.tool));
            }
            Ok(Some(draft)) => {
                drafts.insert(draft.tool, draft);
            }
            Err(warning) => warnings.push(warning),
        }
    }
    if drafts.len() > MAX_TOOLS {
        warnings.push(format!(
            "it lists {} tools; the first {MAX_TOOLS} by name are used. Select the tools you need in tools.allow",
            drafts.len()
        ));
    }
    let listed = definitions.iter().filter_map(|definition| definition.get("name")?.as_str()).collect();
    warnings.extend(unmatched_names(config, &listed, MAX_WARNINGS));
    let mut drafts: Vec<Draft<'_>> = drafts.into_values().take(MAX_TOOLS).collect();
    warnings.extend(keep_own_names(&config.slug, &mut drafts));
    let mut catalog = Catalog::default();
    let mut specs = Vec::with_capacity(drafts.len());
    for (name, draft) in named(&config.slug, drafts) {
        if catalog.entries.contains_key(&name) {
            warnings
                .push(format!("{:?} would have the same name as another tool and is left out", draft.tool));
            continue;
        }
        let (entry, spec) = entry(config, name, draft);
        catalog.entries.insert(spec.name.to_string(), entry);
        specs.push(spec);
    }
    let more = warnings.len().saturating_sub(MAX_WARNINGS);
    warnings.truncate(MAX_WARNINGS);
    if more > 0 {
        warnings.push(format!("and {more} more like these"));
    }
    catalog.warnings = warnings;
    (catalog, specs)
}

/// Checks a definition; none if the rules of the file exclude the tool.
fn draft<'d>(
    config: &'d ServerConfig,
    definition: &'d Map<String, Value>,
) -> Result<Option<Draft<'d>>, String> {
    let name = definition.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        return Err("it lists a tool without a name, which is left out".to_owned());
    }
    if name.len() > MAX_NAME {
        let start: String = name.chars().take(40).collect();
        return Err(format!("{start:?}… has a name of more than {MAX_NAME} bytes and is left out"));
    }
    if name == INSTRUCTIONS {
        return Err(format!("{name:?} is reserved for the server's instructions, so the tool is left out"));
    }
    let rules = &config.tools;
    if !rules.admit(name) {
        return Ok(None);
    }
    let size = serde_json::to_vec(definition).map_or(usize::MAX, |json| json.len());
    if size > MAX_DEFINITION {
        return Err(format!(
            "the definition of {name:?} has {size} bytes, over {MAX_DEFINITION}, and is left out"
        ));
    }
    // The hub follows the task, so callers need not know.
    let as_task = definition.get("execution").and_then(|execution| execution.get("taskSupport"));
    let as_task = as_task == Some(&Value::from("required"));
    let mut definition = definition.clone();
    definition::clean(&mut definition).map_err(|why| format!("{name:?} {why} and is left out"))?;
    if param_headers(definition.get("inputSchema").unwrap_or(&Value::Null)).is_err() {
        return Err(format!("{name:?} has an invalid x-mcp-header and is left out"));
    }
    bound_description(&mut definition);
    Ok(Some(Draft { tool: name, shown: rules.name_of(name), as_task, definition }))
}

/// Truncates a long description.
pub(super) fn bound_description(definition: &mut Map<String, Value>) {
    if let Some(Value::String(description)) = definition.get_mut("description")
        && description.len() > MAX_DESCRIPTION
    {
        description.truncate(description.floor_char_boundary(MAX_DESCRIPTION));
        description.push_str(" […]");
    }
}

/// Cancels renames to a name that another tool has originally: callers of that name mean the other tool.
fn keep_own_names(slug: &str, drafts: &mut [Draft<'_>]) -> Vec<String> {
    let mut warnings = Vec::new();
    loop {
        let own_names = drafts.iter().filter(|draft| draft.shown == draft.tool);
        let own_names: BTreeSet<String> =
            own_names.map(|draft| tool_name::canonical(slug, draft.tool)).collect();
        let is_taken = |draft: &&mut Draft<'_>| {
            draft.shown != draft.tool && own_names.contains(&tool_name::canonical(slug, draft.shown))
        };
        let before = warnings.len();
        for draft in drafts.iter_mut().filter(is_taken) {
            warnings.push(format!(
                "tools.rename would give {:?} the name {:?}, which another of its tools already has; it is not renamed",
                draft.tool, draft.shown
            ));
            draft.shown = draft.tool;
        }
        // A tool that keeps its own name may conflict with the next rename.
        if warnings.len() == before {
            return warnings;
        }
    }
}

/// Assigns canonical names. Tools whose names would collide each get a name with a hash.
fn named<'d>(slug: &str, drafts: Vec<Draft<'d>>) -> Vec<(String, Draft<'d>)> {
    let mut plain: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    for draft in &drafts {
        plain.entry(tool_name::canonical(slug, draft.shown)).or_default().insert(draft.tool);
        *shown.entry(draft.shown).or_default() += 1;
    }
    let name = |draft: &Draft<'_>| {
        let canonical = tool_name::canonical(slug, draft.shown);
        match plain[&canonical].len() {
            1 => canonical,
            // Equal names can only result from renaming, so the original names are distinct.
            _ if shown[draft.shown] > 1 => tool_name::distinct(slug, draft.tool),
            _ => tool_name::distinct(slug, draft.shown),
        }
    };
    drafts.into_iter().map(|draft| (name(&draft), draft)).collect()
}

fn entry(config: &ServerConfig, name: String, draft: Draft<'_>) -> (Entry, ToolSpec) {
    let Draft { tool, shown, as_task, mut definition } = draft;
    let schema = definition.remove("inputSchema").unwrap_or_default();
    let (input_schema, injected) = injection::prepare(schema, &config.inject);
    let text = |member: &str| definition.get(member).and_then(Value::as_str).map(str::to_owned);
    let mut annotations = annotations(&definition);
    annotations.idempotent_hint |= annotations.read_only_hint || config.tools.is_idempotent(tool);
    let upstream = UpstreamTool {
        groups: config.groups_of(tool).map(str::to_owned).collect(),
        bare: config.bare_names,
        // Callers do not know injected arguments, so they cannot repeat them in headers.
        repeats_arguments: param_headers(&input_schema).is_ok_and(|marks| !marks.is_empty()),
        ..UpstreamTool::new(config.slug.clone(), shown)
    };
    let spec = ToolSpec {
        name: Cow::Owned(name),
        title: Cow::Owned(text("title").unwrap_or_else(|| shown.to_owned())),
        description: Cow::Owned(text("description").unwrap_or_default()),
        input_schema,
        output_schema: definition.get("outputSchema").cloned(),
        access: Access { annotations, bufferable: false, repeated: false },
        actions: Vec::new(),
        placement: Placement::Upstream(Arc::new(UpstreamTool { definition, ..upstream })),
        deadline: config.timeout,
        admin: false,
        time: None,
        starts_agents: false,
        handling: plexus_tools::Handling::default(),
    };
    let entry = Entry { tool: tool.to_owned(), repeatable: annotations.idempotent_hint, as_task, injected };
    (entry, spec)
}

/// A tool's annotations, with the pessimistic defaults of MCP for missing ones.
pub(super) fn annotations(definition: &Map<String, Value>) -> ToolAnnotations {
    let declared = definition.get("annotations").and_then(Value::as_object);
    let hint = |name: &str| declared.and_then(|declared| declared.get(name)).and_then(Value::as_bool);
    let read_only_hint = hint("readOnlyHint").unwrap_or(false);
    ToolAnnotations {
        read_only_hint,
        destructive_hint: !read_only_hint && hint("destructiveHint").unwrap_or(true),
        idempotent_hint: hint("idempotentHint").unwrap_or(false),
        open_world_hint: hint("openWorldHint").unwrap_or(true),
    }
}

/// Separators between the words of a name.
const SEPARATORS: [char; 5] = ['_', '-', '.', '/', ':'];

/// A warning for each name and pattern that matches none of the listed tools. Suggestions are computed for
/// the first `most` warnings only, because the others are not shown.
pub(super) fn unmatched_names(config: &ServerConfig, listed: &BTreeSet<&str>, most: usize) -> Vec<String> {
    let rules = &config.tools;
    let lists = [("allow", &rules.allow), ("deny", &rules.deny), ("idempotent", &rules.idempotent)];
    let lists = lists.map(|(list, names)| (format!("tools.{list}"), names));
    let groups = config.groups.iter().map(|(group, names)| (format!("groups.{group}"), names));
    let named = lists.into_iter().chain(groups).flat_map(|(field, names)| {
        names.iter().map(move |name| (field.clone(), name.as_str())).collect::<Vec<_>>()
    });
    let renamed = rules.rename.keys().map(|name| ("tools.rename".to_owned(), name.as_str()));
    named
        .chain(renamed)
        .filter(|(_, name)| !listed.iter().any(|tool| glob::matches(name, tool)))
        .enumerate()
        .map(|(index, (field, name))| {
            let mismatch = if name.contains('*') { "matches none of" } else { "is not among" };
            let suggestion = (index < most).then(|| suggestion(name, listed)).flatten();
            let suggestion =
                suggestion.map(|suggestion| format!("; did you mean {suggestion:?}?")).unwrap_or_default();
            format!("{field} names {name:?}, which {mismatch} its tools{suggestion}")
        })
        .collect()
}

/// The tool with the most similar name; for a pattern, one of the same form that matches a tool.
fn suggestion(name: &str, listed: &BTreeSet<&str>) -> Option<String> {
    let at_end = name.strip_suffix('*').is_some_and(|rest| !rest.contains('*'));
    let at_start = name.strip_prefix('*').is_some_and(|rest| !rest.contains('*'));
    let patterns: BTreeSet<String> = match (at_end, at_start) {
        (true, _) => word_boundaries(listed).map(|(tool, at)| format!("{}*", &tool[..=at])).collect(),
        (_, true) => word_boundaries(listed).map(|(tool, at)| format!("*{}", &tool[at..])).collect(),
        _ if name.contains('*') => return None,
        _ => return nearest(name, listed.iter().copied()).map(str::to_owned),
    };
    nearest(name, patterns.iter().map(String::as_str)).map(str::to_owned)
}

/// The positions at which words of the names end.
fn word_boundaries<'l>(listed: &'l BTreeSet<&str>) -> impl Iterator<Item = (&'l str, usize)> {
    listed.iter().flat_map(|tool| tool.match_indices(SEPARATORS).map(|(at, _)| (*tool, at)))
}

#[cfg(test)]
mod tests;
