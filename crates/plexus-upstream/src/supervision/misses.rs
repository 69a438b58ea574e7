//! What a file names of a server's tools and the server does not have. Most likely it is misspelt, and a tool that was
//! to be left out is there.

use std::collections::BTreeSet;

use plexus_kit::config::nearest;
use plexus_kit::glob;

use crate::config::ServerConfig;

/// Between the words of a name.
const SEPARATORS: [char; 5] = ['_', '-', '.', '/', ':'];

/// A warning for each name and pattern that fits none of the tools that a server lists. What was meant is looked for
/// in the first `most` of them: the others are not shown.
pub(super) fn warnings(config: &ServerConfig, listed: &BTreeSet<&str>, most: usize) -> Vec<String> {
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
        .map(|(place, (field, name))| {
            let what = if name.contains('*') { "fits none of" } else { "is not among" };
            let meant = (place < most).then(|| meant(name, listed)).flatten();
            let meant = meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
            format!("{field} names {name:?}, which {what} its tools{meant}")
        })
        .collect()
}

/// The tool of the most similar name; for a pattern, one of the same form that fits a tool.
fn meant(name: &str, listed: &BTreeSet<&str>) -> Option<String> {
    let at_end = name.strip_suffix('*').is_some_and(|rest| !rest.contains('*'));
    let at_start = name.strip_prefix('*').is_some_and(|rest| !rest.contains('*'));
    let patterns: BTreeSet<String> = match (at_end, at_start) {
        (true, _) => places(listed).map(|(tool, at)| format!("{}*", &tool[..=at])).collect(),
        (_, true) => places(listed).map(|(tool, at)| format!("*{}", &tool[at..])).collect(),
        _ if name.contains('*') => return None,
        _ => return nearest(name, listed.iter().copied()).map(str::to_owned),
    };
    nearest(name, patterns.iter().map(String::as_str)).map(str::to_owned)
}

/// Where words of the names end.
fn places<'l>(listed: &'l BTreeSet<&str>) -> impl Iterator<Item = (&'l str, usize)> {
    listed.iter().flat_map(|tool| tool.match_indices(SEPARATORS).map(|(at, _)| (*tool, at)))
}
