//! The names under which prompts are listed to a caller. As with tools, they depend only on what this caller sees.

use std::collections::{BTreeMap, BTreeSet};

use plexus_proto::tool_name;

/// A prompt, identified by its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerPrompt<'o> {
    pub(super) server: &'o str,
    pub(super) prompt: &'o str,
    /// List it under its own name if no other prompt has that name.
    pub(super) bare: bool,
}

/// The prompts by the name they are listed under.
pub(super) fn listed<'o>(prompts: &[ServerPrompt<'o>]) -> BTreeMap<String, ServerPrompt<'o>> {
    let canonical = canonical(prompts);
    let mut name_counts: BTreeMap<String, usize> = BTreeMap::new();
    for bare in prompts.iter().filter_map(bare_name) {
        *name_counts.entry(bare).or_default() += 1;
    }
    let is_free = |name: &String| name_counts.get(name) == Some(&1);
    canonical
        .into_iter()
        .map(|(name, prompt)| (bare_name(&prompt).filter(is_free).unwrap_or(name), prompt))
        .collect()
}

/// The prompts by their canonical names, which always work. If two prompts of a server would have the same name, a
/// hash is added to each.
pub(super) fn canonical<'o>(prompts: &[ServerPrompt<'o>]) -> BTreeMap<String, ServerPrompt<'o>> {
    let mut plain: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let name = |prompt: &ServerPrompt<'_>| tool_name::canonical(prompt.server, prompt.prompt);
    for prompt in prompts {
        plain.entry(name(prompt)).or_default().insert(prompt.prompt);
    }
    prompts
        .iter()
        .map(|prompt| match plain[&name(prompt)].len() {
            1 => (name(prompt), *prompt),
            _ => (tool_name::distinct(prompt.server, prompt.prompt), *prompt),
        })
        .collect()
}

/// The prompt that a name denotes: its listed name, else its canonical name in any notation, else its own name if
/// that is unique.
pub(super) fn resolve<'o>(prompts: &[ServerPrompt<'o>], name: &str) -> Option<ServerPrompt<'o>> {
    if let Some(prompt) = listed(prompts).get(name) {
        return Some(*prompt);
    }
    if let Some(prompt) = canonical(prompts).get(&*tool_name::canonicalized(name)) {
        return Some(*prompt);
    }
    let mut named = prompts.iter().filter(|prompt| prompt.prompt == name);
    named.next().filter(|_| named.next().is_none()).copied()
}

/// The prompt's own name, if it may be listed under it. A name that looks like a canonical one cannot be used.
fn bare_name(prompt: &ServerPrompt<'_>) -> Option<String> {
    let fits = prompt.bare
        && !prompt.prompt.is_empty()
        && prompt.prompt.len() <= tool_name::MAX
        && !prompt.prompt.starts_with(tool_name::PREFIX);
    fits.then(|| prompt.prompt.to_owned())
}

#[cfg(test)]
mod tests;
