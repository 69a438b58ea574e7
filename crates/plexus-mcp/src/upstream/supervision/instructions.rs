//! What a model is told when its client connects.
//!
//! Our own words first; then, for each server that has a tool the caller sees, what its file says and what the server
//! says of itself, as far as that is approved. The latter is foreign text, and marked as such.

use std::collections::BTreeSet;
use std::sync::Arc;

use plexus_tools::Visible;

use super::unit::Unit;

/// Ours.
const HUB: &str = "Plexus is one hub for all agents of its user. What its tools keep for you belongs to this session \
                   and outlives your context and a restart.";
/// Of one server, each of the two texts, in bytes; the rest is cut off.
const MAX_TEXT: usize = 4 << 10;
/// All together; servers for which there is no room are named and no more.
const MAX_ALL: usize = 32 << 10;

pub(super) fn of(units: &[Arc<Unit>], visible: &Visible) -> String {
    let seen: BTreeSet<&str> =
        visible.tools().filter_map(|tool| Some(tool.spec().upstream()?.server.as_str())).collect();
    let mut text = HUB.to_owned();
    let mut left_out = Vec::new();
    for unit in units.iter().filter(|unit| seen.contains(unit.slug.as_str())) {
        let said = of_server(unit);
        if text.len() + said.len() > MAX_ALL {
            left_out.push(unit.slug.as_str());
        } else {
            text.push_str(&said);
        }
    }
    if !left_out.is_empty() {
        text.push_str(&format!("\n\nThere was no room for what is to be said of: {}.", left_out.join(", ")));
    }
    text
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
