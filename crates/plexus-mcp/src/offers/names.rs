//! The names that one caller's prompts are listed by, made as those of tools are: from what this caller sees and from
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};

use plexus_proto::tool_name;

/// A prompt, as its server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerPrompt<'o> {
    pub(super) server: &'o str,
    pub(super) prompt: &'o str,
    /// To be listed by its own name where no other prompt has it.
    pub(super) bare: bool,
}

/// Each with the name it is listed by, in order of these names.
pub(super) fn listed<'o>(prompts: &[ServerPrompt<'o>]) -> BTreeMap<String, ServerPrompt<'o>> {
    let canonical = canonical(prompts);
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for bare in prompts.iter().filter_map(bare_name) {
        *wanted.entry(bare).or_default() += 1;
    }
    let is_free = |name: &String| wanted.get(name) == Some(&1);
    canonical.into_iter().map(|(name, own)| (bare_name(&own).filter(is_free).unwrap_or(name), own)).collect()
}

/// The names that always work. Where two prompts of a server would have the same, each has one with a hash of its own.
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

/// The prompt that a name stands for: as it is listed, else its canonical name in any of the ways to write it, else its
/// own where only one has it.
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

/// The prompt's own name, if it is to be listed by it and it can be a name here. One that looks as if it were a
/// server's, as all canonical names do, cannot.
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
    fn prompts_are_listed_by_their_server_and_name() {
        let prompts = [own("wiki", "summarise", false), own("git", "summarise", false)];
        let names: Vec<String> = listed(&prompts).into_keys().collect();
        assert_eq!(names, ["mcp__git__summarise", "mcp__wiki__summarise"]);
        assert_eq!(resolve(&prompts, "mcp__git__summarise"), Some(prompts[1]));
        assert_eq!(resolve(&prompts, "mcp:git:summarise"), Some(prompts[1]));
        assert_eq!(resolve(&prompts, "summarise"), None, "it could be either");
    }

    #[test]
    fn a_bare_name_is_given_where_only_one_wants_it() {
        let prompts = [own("a", "one", true), own("b", "two", true), own("c", "two", true)];
        let names: Vec<String> = listed(&prompts).into_keys().collect();
        assert_eq!(names, ["mcp__b__two", "mcp__c__two", "one"]);
        assert_eq!(resolve(&prompts, "one"), Some(prompts[0]));
        assert_eq!(resolve(&prompts, "mcp__a__one"), Some(prompts[0]));
        let posing = [own("a", "mcp__b__two", true), own("b", "two", false)];
        assert_eq!(resolve(&posing, "mcp__b__two"), Some(posing[1]));
    }

    #[test]
    fn two_prompts_whose_names_would_be_one_are_told_apart() {
        let prompts = [own("a", "x y", false), own("a", "x_y", false)];
        let names = listed(&prompts);
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names.keys().all(|name| name.starts_with("mcp__a__x_y_")), "{names:?}");
    }
}
