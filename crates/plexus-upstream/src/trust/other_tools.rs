//! Detects definitions that interfere with tools of other servers: by giving instructions about them, or by a
//! confusable name.
//!
//! It is normal for two servers to have tools of the same name, and for a description to mention "search" or
//! "read". Only names that cannot be ordinary words count, and only in texts that give instructions.

mod mention;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use plexus_proto::api::{FlagKind, ToolFlag};
use plexus_tools::Tool;
use regex::Regex;
use serde_json::{Map, Value};

use super::scan;
use mention::{Mention, mention};

/// Shorter names are ordinary words.
const MIN_LENGTH: usize = 4;

/// Words that give instructions on how to use something.
static INSTRUCTION_PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i-u)\b(must|always|never|instead|before|after|whenever|when (using|calling|the tool|the function)|do not|don't|should|replaces?|prefer|first|also|every|all|only|deprecated|broken|unsafe)\b",
    )
    .ok()
});

/// All tools, indexed for detection.
#[derive(Debug, Default)]
pub(crate) struct OtherTools {
    /// Tool name to the servers that have it (none: the hub). Names are the servers' own.
    by_name: BTreeMap<String, BTreeSet<Option<String>>>,
    /// Confusable skeleton of a name to its servers, each with one of their names.
    by_look: BTreeMap<String, BTreeMap<Option<String>, String>>,
    /// Canonical tool name to its server.
    by_canonical: BTreeMap<String, String>,
}

impl OtherTools {
    pub(crate) fn of(tools: &[Arc<Tool>]) -> Self {
        let mut other_tools = Self::default();
        for tool in tools {
            let spec = tool.spec();
            let (server, name) = match spec.upstream() {
                Some(upstream) => (Some(upstream.server.clone()), upstream.tool.as_str()),
                None => (None, &*spec.name),
            };
            if let Some(server) = &server {
                other_tools.by_canonical.insert(spec.name.to_ascii_lowercase(), server.clone());
            }
            other_tools.by_name.entry(name.to_ascii_lowercase()).or_default().insert(server.clone());
            let alike = other_tools.by_look.entry(scan::look_alike_key(name)).or_default();
            alike.insert(server, name.to_owned());
        }
        other_tools
    }

    /// Findings about a definition of this server in relation to the tools of others. `own_names` holds the
    /// lower-case names of all tools of the server: it may describe these freely, even if other servers have
    /// tools of the same names.
    pub(crate) fn flags(
        &self,
        server: &str,
        own_names: &BTreeSet<String>,
        name: &str,
        form: &Map<String, Value>,
    ) -> Vec<ToolFlag> {
        let mut flags: Vec<ToolFlag> = self.look_alike(server, name).into_iter().collect();
        scan::texts(form, &mut |at, text| {
            if flags.iter().all(|flag| flag.kind != FlagKind::Shadowing)
                && let Some(finding) = self.shadowing(server, own_names, text)
            {
                let at = scan::visible(at);
                flags.push(ToolFlag { kind: FlagKind::Shadowing, at, found: finding });
            }
        });
        flags
    }

    /// Lower-case names of the listed tools of a server.
    fn names_of(&self, server: &str) -> BTreeSet<String> {
        let server = Some(server.to_owned());
        let own_names = self.by_name.iter().filter(|(_, owners)| owners.contains(&server));
        own_names.map(|(name, _)| name.clone()).collect()
    }

    /// Detects a name that is confusable with the name of another server's tool.
    fn look_alike(&self, server: &str, name: &str) -> Option<ToolFlag> {
        let plain = scan::folded(name);
        let flag = |other: &str| ToolFlag {
            kind: FlagKind::LookAlike,
            at: "name".to_owned(),
            found: format!("{} looks like {other}", scan::shorten(&scan::visible(name))),
        };
        // A disguised name is flagged no matter which server has the name that it imitates.
        if plain != name && plain.is_ascii() && plain.bytes().any(|byte| byte.is_ascii_alphabetic()) {
            let is_half = name.chars().any(|c| c.is_ascii_alphabetic());
            let is_taken = self.by_name.contains_key(&plain.to_ascii_lowercase());
            return (is_half || is_taken).then(|| flag(&plain));
        }
        let look_alikes = self.by_look.get(&scan::look_alike_key(name))?;
        let differs = |other: &str| !alphanumeric_chars(other).eq(alphanumeric_chars(name));
        let of_another =
            |(owner, other): &(&Option<String>, &String)| owner.as_deref() != Some(server) && differs(other);
        // A name that other servers use unchanged is not an imitation.
        let owners = self.by_name.get(&name.to_ascii_lowercase());
        let is_common =
            owners.is_some_and(|owners| owners.iter().any(|owner| owner.as_deref() != Some(server)));
        look_alikes
            .iter()
            .find(of_another)
            .filter(|_| !is_common)
            .map(|(_, other)| flag(&scan::visible(other)))
    }

    /// The tool of another server that a text gives instructions about.
    fn shadowing(&self, server: &str, own_names: &BTreeSet<String>, text: &str) -> Option<String> {
        let small = text.to_ascii_lowercase();
        let mut orders = None;
        for (start, word) in words(&small) {
            let end = start + word.len();
            if let Some(other) = self.qualified(server, own_names, word) {
                return Some(format!("it mentions {other}"));
            }
            let Some(owners) = self.by_name.get(word).filter(|_| !own_names.contains(word)) else { continue };
            let mentioned = match is_distinct(&text[start..end]) {
                true => Mention::Tool,
                false => mention(&small, start, end),
            };
            let gives_orders = match mentioned {
                Mention::None => false,
                Mention::Order => true,
                Mention::Tool => *orders.get_or_insert_with(|| {
                    INSTRUCTION_PATTERN.as_ref().is_some_and(|orders| orders.is_match(text))
                }),
            };
            if gives_orders {
                let owner = owners.iter().next().and_then(Option::as_deref);
                let owner_text =
                    owner.map_or_else(|| "the hub".to_owned(), |server| format!("the server {server}"));
                return Some(format!(
                    "it gives instructions about {}, a tool of {owner_text}",
                    &text[start..end]
                ));
            }
        }
        None
    }

    /// The canonical name of another server's tool, which cannot be an ordinary word, even if that server
    /// does not exist.
    fn qualified<'w>(&self, server: &str, own_names: &BTreeSet<String>, word: &'w str) -> Option<&'w str> {
        match self.by_canonical.get(word) {
            Some(owner) => (owner != server).then_some(word),
            None => {
                let (of, tool) = word.strip_prefix("mcp__")?.split_once("__")?;
                // A server may use a different name for itself.
                (of != server && !own_names.contains(tool)).then_some(word)
            }
        }
    }
}

/// Candidates for names in a text, with their start.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut read = 0;
    text.split_inclusive(move |c| !is_part(c)).filter_map(move |piece| {
        let (word, from) = (piece.trim_matches(|c: char| !c.is_ascii_alphanumeric()), read);
        read += piece.len();
        let start = from + piece.find(word)?;
        (word.len() >= MIN_LENGTH).then_some((start, word))
    })
}

/// Whether a name cannot be an ordinary word because it consists of several words.
fn is_distinct(word: &str) -> bool {
    let inner_capital =
        word.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    word.contains('_') || inner_capital || word.matches('-').count() > 1
}

/// The letters of a name, ignoring separators and case.
fn alphanumeric_chars(name: &str) -> impl Iterator<Item = char> + '_ {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase)
}

/// Findings about listed tools in relation to all other tools, by canonical name.
pub(crate) fn review(tools: &[Arc<Tool>]) -> BTreeMap<String, Vec<ToolFlag>> {
    let other_tools = OtherTools::of(tools);
    let mut own_names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let of_tool = |tool: &Arc<Tool>| {
        let (spec, upstream) = (tool.spec(), tool.spec().upstream()?);
        let mut form = upstream.definition.clone();
        form.insert("inputSchema".to_owned(), spec.input_schema.clone());
        let name = form.get("name").and_then(Value::as_str).unwrap_or(&upstream.tool).to_owned();
        let own_names = own_names
            .entry(upstream.server.clone())
            .or_insert_with(|| other_tools.names_of(&upstream.server));
        let flags = other_tools.flags(&upstream.server, own_names, &name, &form);
        (!flags.is_empty()).then(|| (spec.name.to_string(), flags))
    };
    tools.iter().filter_map(of_tool).collect()
}

#[cfg(test)]
mod tests;
