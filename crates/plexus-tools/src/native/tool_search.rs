//! `tool_search`: words to tools, best first.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::list_tools::{Entry, Output};
use crate::{Access, CallError, Outcome, Tool, ToolContext, ToolSpec, TypedTool};

const DEFAULT_LIMIT: usize = 10;

pub(super) struct ToolSearch;

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
            "tool_search",
            "Search tools",
            "Finds the tools that fit what you want to do, best first, with the arguments they take. \
                          Call them by name, or through tool_call if your client has not loaded them.",
            Access::READ,
        )
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let words = words(&args.query);
        let mut found: Vec<(u32, &Arc<Tool>)> = context
            .visible
            .tools()
            .map(|tool| (score(tool.spec(), &words), tool))
            .filter(|(score, _)| *score > 0)
            .collect();
        // A stable sort: equals stay in the order of their names.
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
        let tools = found.into_iter().take(limit).map(|(_, tool)| Entry::of(tool, true)).collect();
        Ok(Outcome::Ready(
            Output { tools }.into_tool_output("Nothing fits. Try other words, or list_tools for all."),
        ))
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// How well a tool fits: a word in the name counts most, then in the title and actions, then in the
/// description; a whole word counts more than the beginning of one.
fn score(spec: &ToolSpec, query: &[String]) -> u32 {
    let actions = spec.actions.iter().map(|action| &*action.name).collect::<Vec<_>>().join(" ");
    let fields = [(&*spec.name, 8), (&*spec.title, 4), (actions.as_str(), 4), (&*spec.description, 1)];
    query
        .iter()
        .map(|wanted| {
            fields
                .iter()
                .map(|(text, weight)| {
                    weight * words(text).iter().map(|word| likeness(word, wanted)).max().unwrap_or(0)
                })
                .sum::<u32>()
        })
        .sum()
}

fn likeness(word: &str, wanted: &str) -> u32 {
    if word == wanted {
        4
    } else if wanted.len() >= 3 && (word.starts_with(wanted) || (word.len() >= 4 && wanted.starts_with(word)))
    {
        2
    } else {
        0
    }
}
