//! The names that one caller's tools are listed by.
//!
//! They are made from what this caller sees and from nothing else: a name that is taken by a tool the caller
//! does not see is free, or its absence would tell of that tool.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use plexus_proto::tool_name;

use crate::Tool;

/// Tools by the names they are listed by: the canonical one, or the tool's own where its server is configured
/// so and nothing else goes by it. Of two that want the same name both keep the long one: which came first
/// must not matter.
pub(crate) fn listed(tools: Vec<Arc<Tool>>) -> BTreeMap<String, Arc<Tool>> {
    let mut wanted: HashMap<String, usize> = HashMap::new();
    for bare in tools.iter().filter_map(|tool| bare_name(tool)) {
        *wanted.entry(bare).or_default() += 1;
    }
    if !wanted.is_empty() {
        // Names that are somebody's already.
        for tool in &tools {
            wanted.remove(&*tool.spec().name);
        }
    }
    tools
        .into_iter()
        .map(|tool| match bare_name(&tool).filter(|bare| wanted.get(bare) == Some(&1)) {
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
