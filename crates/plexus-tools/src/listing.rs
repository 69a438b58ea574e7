//! The listed names of one caller's tools.
//!
//! They depend only on the tools that this caller sees. A name used by an invisible tool counts as free; otherwise its
//! absence would reveal that tool.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use plexus_proto::tool_name;

use crate::Tool;

/// Tools by their listed names: the canonical name, or the tool's own name if its server is configured so and the name
/// is unique. If two tools have the same own name, both keep the canonical one, so the order does not matter.
pub(crate) fn listed(tools: Vec<Arc<Tool>>) -> BTreeMap<String, Arc<Tool>> {
    let mut name_counts: HashMap<String, usize> = HashMap::new();
    for bare in tools.iter().filter_map(|tool| bare_name(tool)) {
        *name_counts.entry(bare).or_default() += 1;
    }
    if !name_counts.is_empty() {
        // Names already in use.
        for tool in &tools {
            name_counts.remove(&*tool.spec().name);
        }
    }
    tools
        .into_iter()
        .map(|tool| match bare_name(&tool).filter(|bare| name_counts.get(bare) == Some(&1)) {
            Some(bare) => {
                let tool = Arc::new(tool.listed_as(&bare));
                (bare, tool)
            }
            None => (tool.spec().name.to_string(), tool),
        })
        .collect()
}

/// The tool's own name, if it is to be listed by it and it can be a name here. One that looks as if it were
/// a server's, as all canonical names do, cannot.
fn bare_name(tool: &Tool) -> Option<String> {
    let upstream = tool.spec().upstream().filter(|upstream| upstream.bare)?;
    let bare = tool_name::sanitized(&upstream.tool);
    let fits = !bare.is_empty() && bare.len() <= tool_name::MAX && !bare.starts_with(tool_name::PREFIX);
    fits.then_some(bare)
}
