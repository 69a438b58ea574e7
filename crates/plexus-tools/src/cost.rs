//! The context cost of the tools listed to a caller.
//!
//! The cost counts what a client sends to its model: of each tool its name, description and input schema, as one JSON
//! object; and the instructions about the hub and its servers that a client gets when it connects. Titles, annotations
//! and output schemas go to clients, not to models.

use std::collections::BTreeMap;

use plexus_proto::api::{ServerCost, ToolCost, ToolsCost, UnlistedCost};
use serde::Serialize;
use serde_json::Value;

use crate::{CallError, TOKENIZER, TokenCounter, Tool, Visible};

/// A part of the instructions that a model gets when its client connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionPart {
    /// The slug of the described server; none for the hub itself.
    pub server: Option<String>,
    pub text: String,
}

/// The cost of the listed tools and of the instructions.
pub async fn cost(
    counter: &TokenCounter,
    visible: &Visible,
    instructions: &[InstructionPart],
) -> Result<ToolsCost, CallError> {
    let listed = visible.listed_tools().chain(visible.unlisted_tools()).map(|tool| as_sent(tool));
    let texts = listed.chain(instructions.iter().map(|part| part.text.clone())).collect();
    let counts = counter.count(texts).await?;
    let mut counts = counts.into_iter();
    let mut servers: BTreeMap<Option<String>, ServerCost> = BTreeMap::new();
    let mut tools = Vec::new();
    for (tool, tokens) in visible.listed_tools().zip(counts.by_ref()) {
        let server = server_of(tool);
        let cost = servers.entry(server.clone()).or_insert_with(|| empty_cost(server.clone()));
        cost.tools += 1;
        cost.tool_tokens += tokens;
        tools.push(ToolCost { name: tool.name().to_owned(), server, tokens, share: 0.0 });
    }
    let unlisted: Vec<u64> = counts.by_ref().take(visible.unlisted_tools().count()).collect();
    for (part, tokens) in instructions.iter().zip(counts) {
        let server = || empty_cost(part.server.clone());
        servers.entry(part.server.clone()).or_insert_with(server).instruction_tokens += tokens;
    }
    let mut servers: Vec<ServerCost> = servers.into_values().collect();
    for server in &mut servers {
        server.tokens = server.tool_tokens + server.instruction_tokens;
    }
    let all = servers.iter().map(|server| server.tokens).sum();
    servers.iter_mut().for_each(|server| server.share = share(server.tokens, all));
    tools.iter_mut().for_each(|tool| tool.share = share(tool.tokens, all));
    // The sorts are stable: equal costs stay in name order.
    servers.sort_by_key(|server| std::cmp::Reverse(server.tokens));
    tools.sort_by_key(|tool| std::cmp::Reverse(tool.tokens));
    Ok(ToolsCost {
        tokenizer: TOKENIZER.to_owned(),
        profile: None,
        tokens: all,
        servers,
        tools,
        unlisted: visible
            .is_thin()
            .then(|| UnlistedCost { tools: unlisted.len(), tokens: unlisted.iter().sum() }),
    })
}

/// A tool as sent to a model.
fn as_sent(tool: &Tool) -> String {
    #[derive(Serialize)]
    struct SentTool<'t> {
        name: &'t str,
        description: &'t str,
        input_schema: &'t Value,
    }
    let spec = tool.spec();
    let sent =
        SentTool { name: tool.name(), description: &spec.description, input_schema: &spec.input_schema };
    // A value parsed from JSON can be serialized as JSON.
    serde_json::to_string(&sent).unwrap_or_default()
}

fn server_of(tool: &Tool) -> Option<String> {
    tool.spec().upstream().map(|upstream| upstream.server.clone())
}

fn empty_cost(server: Option<String>) -> ServerCost {
    ServerCost { server, tools: 0, tool_tokens: 0, instruction_tokens: 0, tokens: 0, share: 0.0 }
}

/// In percent, with one decimal.
#[expect(clippy::cast_precision_loss, reason = "a share needs no more than three digits")]
fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { (part as f64 * 1000.0 / all as f64).round() / 10.0 }
}
