//! A hub with many native tools, for the cost of a long list without upstreams.
//!
//! It is the hub's own code, started inside this program without logging.

use anyhow::Result;
use plexus_testkit::TestHub;
use plexus_tools::{
    Access, CallError, Outcome, Placement, Tool, ToolContext, ToolOutput, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::print_address;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Text {
    /// What to say
    text: String,
}

struct Idle(String);

impl TypedTool for Idle {
    type Args = Text;
    type Output = Text;

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.0.clone().into(),
            title: "Echo".into(),
            description: "Says what it is told, as it was told, and does nothing else.".into(),
            input_schema: Value::Null,
            output_schema: None,
            access: Access::ADD,
            actions: vec![],
            placement: Placement::Hub,
            deadline: std::time::Duration::from_secs(60),
            admin: false,
            time: None,
            starts_agents: false,
            handling: plexus_tools::Handling::default(),
        }
    }

    async fn run(&self, _: ToolContext, input: Text) -> Result<Outcome, CallError> {
        Ok(Outcome::Ready(ToolOutput::new(&input.text, &input)))
    }
}

pub(super) async fn run(tools: usize) -> Result<()> {
    let hub = TestHub::start().await;
    hub.registry().add((0..tools).map(|number| Tool::typed(Idle(format!("idle_{number:04}")))));
    let token = hub.token("bench", &["call:*"]).await.token;
    print_address(&format!("{} {token}", hub.address()))?;
    std::future::pending().await
}
