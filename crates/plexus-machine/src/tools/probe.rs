//! `probe`: does nothing. A hub calls it to know that calls get through to a node and back, which an open socket does
//! not say. It is in no list.

use plexus_tools::{Access, CallError, Outcome, ToolContext, ToolOutput, ToolSpec, TypedTool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const NAME: &str = "probe";

#[derive(Debug)]
pub(super) struct Probe;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {}

impl TypedTool for Probe {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        ToolSpec::node(NAME, "Probe", "Does nothing.", Access::READ)
    }

    async fn run(&self, _: ToolContext, _: Args) -> Result<Outcome, CallError> {
        Ok(Outcome::Ready(ToolOutput::new("", &Output {})))
    }
}
