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
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for bare in prompts.iter().filter_map(bare_name) {
        *wanted.entry(bare).or_default() += 1;
    }
    let is_free = |name: &String| wanted.get(name) == Some(&1);
    canonical.into_iter().map(|(name, own)| (bare_name(&own).filter(is_free).unwrap_or(name), own)).collect()
}

/// The prompts by their canonical names, which always work. If two prompts of a server would have the same name, a
/// hash is added to each.
pub(super) fn canonical<'o>(prompts: &[ServerPrompt<'o>]) -> BTreeMap<String, ServerPrompt<'o>> {
    let mut plain: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let name = |own: &ServerPrompt<'_>| tool_name::canonical(own.server, own.prompt);
    for own in prompts {
        plain.entry(name(own)).or_default().insert(own.prompt);
    }
    prompts
        .iter()
        .map(|own| match plain[&name(own)].len() {
            1 => (name(own), *own),
            _ => (tool_name::distinct(own.server, own.prompt), *own),
        })
        .collect()
}

/// The prompt that a name denotes: its listed name, else its canonical name in any notation, else its own name if
/// that is unique.
pub(super) fn resolve<'o>(prompts: &[ServerPrompt<'o>], name: &str) -> Option<ServerPrompt<'o>> {
    if let Some(own) = listed(prompts).get(name) {
        return Some(*own);
    }
    if let Some(own) = canonical(prompts).get(&*tool_name::canonicalized(name)) {
        return Some(*own);
    }
    let mut named = prompts.iter().filter(|own| own.prompt == name);
    named.next().filter(|_| named.next().is_none()).copied()
}

/// The prompt's own name, if it may be listed under it. A name that looks like a canonical one cannot be used.
fn bare_name(own: &ServerPrompt<'_>) -> Option<String> {
    let fits = own.bare
        && !own.prompt.is_empty()
        && own.prompt.len() <= tool_name::MAX
        && !own.prompt.starts_with(tool_name::PREFIX);
    fits.then(|| own.prompt.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{ServerPrompt, listed, resolve};

    fn own<'o>(server: &'o str, prompt: &'o str, bare: bool) -> ServerPrompt<'o> {
        ServerPrompt { server, prompt, bare }
    }

    #[test]
    fn prompts_are_listed_by_server_and_name() {
        let prompts = [own("wiki", "summarise", false), own("git", "summarise", false)];
        let names: Vec<String> = listed(&prompts).into_keys().collect();
        assert_eq!(names, ["mcp__git__summarise", "mcp__wiki__summarise"]);
        assert_eq!(resolve(&prompts, "mcp__git__summarise"), Some(prompts[1]));
        assert_eq!(resolve(&prompts, "mcp:git:summarise"), Some(prompts[1]));
        assert_eq!(resolve(&prompts, "summarise"), None, "the name is ambiguous");
    }

    #[test]
    fn bare_name_is_used_if_unique() {
        let prompts = [own("a", "one", true), own("b", "two", true), own("c", "two", true)];
        let names: Vec<String> = listed(&prompts).into_keys().collect();
        assert_eq!(names, ["mcp__b__two", "mcp__c__two", "one"]);
        assert_eq!(resolve(&prompts, "one"), Some(prompts[0]));
        assert_eq!(resolve(&prompts, "mcp__a__one"), Some(prompts[0]));
        let posing = [own("a", "mcp__b__two", true), own("b", "two", false)];
        assert_eq!(resolve(&posing, "mcp__b__two"), Some(posing[1]));
    }

    #[test]
    fn colliding_prompt_names_get_a_hash() {
        let prompts = [own("a", "x y", false), own("a", "x_y", false)];
        let names = listed(&prompts);
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names.keys().all(|name| name.starts_with("mcp__a__x_y_")), "{names:?}");
    }
}
