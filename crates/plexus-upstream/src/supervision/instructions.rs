//! What a model is told when its client connects.
//!
//! Our own words first; then, for each server that has a tool the caller is listed, what its file says and what the
//! server says of itself, as far as that is approved. The latter is foreign text, and marked as such. Where lists show a
//! part of the tools only, our words say how the others are found, and name their servers.

use std::collections::BTreeSet;
use std::sync::Arc;

use plexus_tools::{Said, Tool, Visible};

use super::unit::Unit;

/// Ours.
const HUB: &str = "Plexus is one hub for all agents of its user. What its tools keep for you belongs to this session \
                   and outlives your context and a restart.";
/// Where not all tools are listed.
const THIN: &str = "\n\nOnly some of your tools are listed. Find the others by what they do with tool_search, and call \
                    them with tool_call.";
/// Of one server, each of the two texts, in bytes; the rest is cut off.
const MAX_TEXT: usize = 4 << 10;
/// All together; servers for which there is no room are named and no more.
const MAX_ALL: usize = 32 << 10;
/// Servers that are named because they have tools that are not listed.
const NAMED: usize = 50;

/// Part by part: the whole is all of them, one after the other.
pub(super) fn of(units: &[Arc<Unit>], visible: &Visible) -> Vec<Said> {
    let listed = servers(visible.listed_tools());
    let mut parts = vec![Said { server: None, text: format!("{HUB}{}", unlisted(visible)) }];
    let mut length = parts[0].text.len();
    let mut left_out = Vec::new();
    for unit in units.iter().filter(|unit| listed.contains(unit.slug.as_str())) {
        let text = of_server(unit);
        if length + text.len() > MAX_ALL {
            left_out.push(unit.slug.as_str());
        } else if !text.is_empty() {
            length += text.len();
            parts.push(Said { server: Some(unit.slug.clone()), text });
        }
    }
    if !left_out.is_empty() {
        let text = format!("\n\nThere was no room for what is to be said of: {}.", left_out.join(", "));
        parts.push(Said { server: None, text });
    }
    parts
}

fn servers<'t>(tools: impl Iterator<Item = &'t Arc<Tool>>) -> BTreeSet<&'t str> {
    tools.filter_map(|tool| Some(tool.spec().upstream()?.server.as_str())).collect()
}

/// What to say of tools that are not listed; nothing where all are.
fn unlisted(visible: &Visible) -> String {
    if !visible.is_thin() {
        return String::new();
    }
    let named: Vec<&str> = servers(visible.unlisted_tools()).into_iter().take(NAMED).collect();
    match named.is_empty() {
        true => THIN.to_owned(),
        false => format!("{THIN} There are more of these servers: {}.", named.join(", ")),
    }
}

/// Empty when there is nothing to say.
fn of_server(unit: &Unit) -> String {
    let config = unit.config();
    let ours = config.as_ref().and_then(|config| config.instructions.as_deref());
    let judgement = unit.judgement.load();
    let theirs = judgement.instructions.as_deref();
    let mut said = String::new();
    if let Some(text) = ours.filter(|text| !text.trim().is_empty()) {
        said.push_str(&format!("\n\nTools mcp__{}__*: {}", unit.slug, cut(text.trim())));
    }
    if let Some(text) = theirs.filter(|text| !text.trim().is_empty()) {
        said.push_str(&format!(
            "\n\nThe server {} says of its tools (mcp__{}__*): {}",
            unit.name,
            unit.slug,
            cut(text.trim())
        ));
    }
    said
}

fn cut(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    format!("{} […]", &text[..text.floor_char_boundary(MAX_TEXT)])
}
