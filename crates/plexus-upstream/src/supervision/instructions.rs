//! The instructions for a model when its client connects.
//!
//! The hub's own text comes first; then, for each server with a tool that is listed to the caller, the text
//! in its file and the server's own instructions if they are approved. The latter are third-party text and
//! marked as such. If lists show only some of the tools, the hub's text explains how to find the others, and
//! names their servers.

use std::collections::BTreeSet;
use std::sync::Arc;

use plexus_tools::{InstructionPart, Tool, Visible};

use super::unit::Unit;

/// The hub's own text.
const HUB_INSTRUCTIONS: &str = "Plexus is one hub for all agents of its user. Data that its tools store for you belongs to this session \
                   and survives the loss of your context and a restart.";
/// Added if not all tools are listed.
const THIN_INSTRUCTIONS: &str = "\n\nOnly some of your tools are listed. Find the others by what they do with tool_search, and call \
                    them with tool_call.";
/// Limit in bytes of each of a server's two texts; the rest is cut off.
const MAX_TEXT: usize = 4 << 10;
/// Limit of all texts; servers that exceed it are only named.
const MAX_ALL: usize = 32 << 10;
/// Limit of servers that are named because they have unlisted tools.
const MAX_NAMED: usize = 50;

/// The parts of the instructions; the whole is their concatenation.
pub(super) fn of(units: &[Arc<Unit>], visible: &Visible) -> Vec<InstructionPart> {
    let listed = servers(visible.listed_tools());
    let mut parts =
        vec![InstructionPart { server: None, text: format!("{HUB_INSTRUCTIONS}{}", unlisted(visible)) }];
    let mut length = parts[0].text.len();
    let mut left_out = Vec::new();
    for unit in units.iter().filter(|unit| listed.contains(unit.slug.as_str())) {
        let text = of_server(unit);
        if length + text.len() > MAX_ALL {
            left_out.push(unit.slug.as_str());
        } else if !text.is_empty() {
            length += text.len();
            parts.push(InstructionPart { server: Some(unit.slug.clone()), text });
        }
    }
    if !left_out.is_empty() {
        let text = format!("\n\nThere was no room for the instructions of: {}.", left_out.join(", "));
        parts.push(InstructionPart { server: None, text });
    }
    parts
}

fn servers<'t>(tools: impl Iterator<Item = &'t Arc<Tool>>) -> BTreeSet<&'t str> {
    tools.filter_map(|tool| Some(tool.spec().upstream()?.server.as_str())).collect()
}

/// A hint about unlisted tools; empty if all are listed.
fn unlisted(visible: &Visible) -> String {
    if !visible.is_thin() {
        return String::new();
    }
    let named: Vec<&str> = servers(visible.unlisted_tools()).into_iter().take(MAX_NAMED).collect();
    match named.is_empty() {
        true => THIN_INSTRUCTIONS.to_owned(),
        false => format!("{THIN_INSTRUCTIONS} These servers have more tools: {}.", named.join(", ")),
    }
}

/// The instructions for one server; may be empty.
fn of_server(unit: &Unit) -> String {
    let config = unit.config();
    let configured = config.as_ref().and_then(|config| config.instructions.as_deref());
    let judgement = unit.judgement.load();
    let reported = judgement.instructions.as_deref();
    let mut instructions = String::new();
    if let Some(text) = configured.filter(|text| !text.trim().is_empty()) {
        instructions.push_str(&format!("\n\nTools mcp__{}__*: {}", unit.slug, cut(text.trim())));
    }
    if let Some(text) = reported.filter(|text| !text.trim().is_empty()) {
        instructions.push_str(&format!(
            "\n\nThe server {} says of its tools (mcp__{}__*): {}",
            unit.name,
            unit.slug,
            cut(text.trim())
        ));
    }
    instructions
}

fn cut(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    format!("{} […]", &text[..text.floor_char_boundary(MAX_TEXT)])
}
