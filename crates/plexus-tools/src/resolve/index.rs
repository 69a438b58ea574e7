//! An index that finds the few tools a written name can refer to.
//!
//! All spellings of a name have the same letters and digits in the same order, ignoring case. Tools are indexed by
//! these, for each of their names, and only tools with the same key are compared further.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::{Tools, WrittenName, own_names};
use crate::Tool;

/// Positions of tools in the order of their listed names, by the key shared by all spellings of a name.
#[derive(Debug, Default)]
pub(crate) struct Index(Vec<(u64, usize)>);

impl Index {
    pub(crate) fn new(tools: &Tools) -> Self {
        let mut positions = Vec::new();
        for (position, tool) in tools.values().enumerate() {
            positions.push((key(&[tool.name()]), position));
            positions.push((key(&[&tool.spec().name]), position));
            let Some((upstream, names)) = own_names(tool) else { continue };
            for name in names {
                positions.push((key(&[name]), position));
                positions.push((key(&[&upstream.server, name]), position));
            }
        }
        positions.sort_unstable();
        positions.dedup();
        Self(positions)
    }

    /// The tools that a step may match for this name, in the order of their listed names.
    pub(super) fn possible<'t>(&self, tools: &'t Tools, written: &WrittenName<'_>) -> Vec<&'t Arc<Tool>> {
        let full_names = [Some(written.name), written.canonical.as_deref(), written.after_mcp];
        let full_names = full_names.into_iter().flatten().map(|name| key(&[name]));
        // A truncated slug has other letters than the written name.
        let parts = written.splits.iter().chain(&written.splits_after_mcp);
        let parts = parts.map(|(server, tool)| key(&[server, tool]));
        let mut keys: Vec<u64> = full_names.chain(parts).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut positions: Vec<usize> = keys.into_iter().flat_map(|key| self.of(key)).collect();
        positions.sort_unstable();
        positions.dedup();
        if positions.is_empty() {
            return Vec::new();
        }
        let is_possible = |position: &usize| positions.binary_search(position).is_ok();
        tools
            .values()
            .enumerate()
            .filter(|(position, _)| is_possible(position))
            .map(|(_, tool)| tool)
            .collect()
    }

    fn of(&self, key: u64) -> impl Iterator<Item = usize> {
        let start = self.0.partition_point(|(other, _)| *other < key);
        self.0[start..].iter().take_while(move |(other, _)| *other == key).map(|(_, position)| *position)
    }
}

/// A hash of the letters and digits of a text given in parts. On a collision both tools are compared.
fn key(parts: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for byte in parts.iter().flat_map(|part| part.bytes()).filter(u8::is_ascii_alphanumeric) {
        byte.to_ascii_lowercase().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
