//! Which tool a name stands for, however it is written, and that no way of writing one reaches further.

mod aliases;
mod any_spelling;
mod records;

use plexus_proto::tool_name;
use plexus_tools::{Tool, UpstreamTool};

use crate::hub::named_upstream_tool;

/// Whether a server's tools are listed by their own names.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Naming {
    Full,
    Bare,
}

/// A tool of another server, which answers with its canonical name.
fn upstream(server: &str, naming: Naming, tool: &str) -> Tool {
    let slug = tool_name::slug(server).unwrap();
    named_upstream_tool(UpstreamTool { bare: naming == Naming::Bare, ..UpstreamTool::new(slug, tool) })
}
