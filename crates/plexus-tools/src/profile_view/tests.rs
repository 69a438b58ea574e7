use std::sync::Arc;

use super::candidate;
use crate::{Access, Outcome, Tool, ToolOutput, ToolSpec};

#[test]
fn profiles_recognize_tools_that_start_agents() {
    let tool = |spec: ToolSpec| {
        let run = |_, _| -> futures_util::future::BoxFuture<'static, _> {
            Box::pin(std::future::ready(Ok(Outcome::Ready(ToolOutput::new("", &())))))
        };
        Tool::upstream(spec, Arc::new(run))
    };
    let spec = ToolSpec::hub("spawn", "Spawn", "", Access::ADD);
    assert!(!candidate(&tool(spec.clone())).starts_agents);
    assert!(candidate(&tool(spec.starting_agents())).starts_agents);
}
