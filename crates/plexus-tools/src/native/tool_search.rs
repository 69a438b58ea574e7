//! `tool_search`: finds tools by words, best match first.

use std::cmp::Ordering;
use std::sync::Arc;

use plexus_proto::tool_name::SEARCH;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::list_tools::{self, Entry, Output};
use crate::{Access, Alias, CallError, Outcome, Tool, ToolContext, ToolSpec, TypedTool};

const DEFAULT_LIMIT: usize = 10;
/// The most words of a description, or names of arguments, that are indexed.
const MAX_WORDS: usize = 400;
/// The most words of a query that are used.
const MAX_QUERY: usize = 50;

pub(super) struct ToolSearch;

/// As agents call them in tools of their own.
const ALIASES: &[Alias] = &[
    Alias::new("query", &["q", "search", "text", "pattern"]),
    Alias::new("limit", &["max_results", "top_k"]),
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// What you want to do, in a few words.
    #[schemars(length(min = 1, max = 500))]
    query: String,
    /// How many tools at the most; 10 if left out.
    #[schemars(range(min = 1, max = 100))]
    limit: Option<usize>,
}

impl TypedTool for ToolSearch {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        ToolSpec::hub(
            SEARCH,
            "Search tools",
            "Finds the tools that fit what you want to do, best first, with the arguments they take. \
                          Call them by name, or through tool_call if your client has not loaded them.",
            Access::READ,
        )
        .with_aliases(ALIASES)
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
        let matching = ranked(context.visible.tools(), &args.query);
        let tools = matching.into_iter().take(limit).map(|tool| Entry::of(tool, true)).collect();
        let lists = context.visible.tools().any(|tool| tool.name() == list_tools::NAME);
        let nothing = match lists {
            true => "Nothing fits. Try other words, or list_tools for all.",
            false => "Nothing fits. Try other words.",
        };
        Ok(Outcome::Ready(Output { tools }.into_tool_output(nothing)))
    }
}

/// The tools that match any word of a query, best first; equal matches keep their order.
///
/// A word weighs more the fewer tools contain it.
fn ranked<'t>(tools: impl Iterator<Item = &'t Arc<Tool>>, query: &str) -> Vec<&'t Arc<Tool>> {
    let mut query = words(query);
    query.sort_unstable();
    query.dedup();
    query.truncate(MAX_QUERY);
    // One row per tool: how well it matches each word.
    let fits: Vec<(&Arc<Tool>, Vec<u32>)> = tools
        .map(|tool| {
            let fields = fields(tool.spec());
            (tool, query.iter().map(|word| score(&fields, word)).collect())
        })
        .collect();
    let rarity: Vec<f64> = (0..query.len())
        .map(|word| {
            let having = fits.iter().filter(|(_, row)| row[word] > 0).count();
            (1.0 + small(fits.len()) / small(having.max(1))).ln()
        })
        .collect();
    let mut scored: Vec<(f64, &Arc<Tool>)> = fits
        .into_iter()
        .map(|(tool, row)| {
            (row.iter().zip(&rarity).map(|(score, rare)| f64::from(*score) * rare).sum(), tool)
        })
        .filter(|(score, _)| *score > 0.0)
        .collect();
    scored.sort_by(|(a, _), (b, _)| b.partial_cmp(a).unwrap_or(Ordering::Equal));
    scored.into_iter().map(|(_, tool)| tool).collect()
}

fn small(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Splits into lower-case words; `createIssue2` becomes `create` and `issue2`.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in text.split(|c: char| !c.is_alphanumeric()) {
        let mut word = String::new();
        let mut after_small = false;
        for letter in part.chars() {
            if letter.is_uppercase() && after_small {
                words.push(std::mem::take(&mut word));
            }
            after_small = letter.is_lowercase();
            word.extend(letter.to_lowercase());
        }
        words.push(word);
    }
    words.retain(|word| !word.is_empty());
    words.truncate(MAX_WORDS);
    words
}

/// The weighted words of a tool: the name weighs most, then the title and the actions, then the description and the
/// names of the arguments.
fn fields(spec: &ToolSpec) -> [(Vec<String>, u32); 5] {
    let actions: Vec<&str> = spec.actions.iter().map(|action| &*action.name).collect();
    let properties = spec.input_schema.get("properties").and_then(Value::as_object);
    let arguments: Vec<&str> =
        properties.into_iter().flat_map(|all| all.keys().map(String::as_str)).collect();
    [
        (words(&spec.name), 8),
        (words(&spec.title), 4),
        (words(&actions.join(" ")), 4),
        (words(&spec.description), 1),
        (words(&arguments.join(" ")), 1),
    ]
}

fn score(fields: &[(Vec<String>, u32)], query_word: &str) -> u32 {
    let best = |words: &[String]| words.iter().map(|word| similarity(word, query_word)).max().unwrap_or(0);
    fields.iter().map(|(words, weight)| weight * best(words)).sum()
}

/// A whole word weighs more than a prefix.
fn similarity(word: &str, query_word: &str) -> u32 {
    if word == query_word {
        4
    } else if query_word.len() >= 3
        && (word.starts_with(query_word) || (word.len() >= 4 && query_word.starts_with(word)))
    {
        2
    } else {
        0
    }
}

#[cfg(test)]
mod tests;
