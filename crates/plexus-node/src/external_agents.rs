//! `external_agents`: lets the hub manage the agents of this machine that its owner has connected. Only the hub
//! itself can call it; it is not listed.
//!
//! The hub cannot connect agents; that requires `plexus connect` on the machine. It can update, pause and remove
//! connections.

use std::sync::Arc;

use plexus_bridge::{AgentManager, BridgeError, ConflictPolicy, InstructionContent};
use plexus_proto::ErrorCode;
use plexus_proto::api::{ExternalAgentInstructions, RemovedExternalAgent};
use plexus_tools::{
    Access, Action, CallError, Outcome, Tool, ToolContext, ToolOutput, ToolSpec, TypedTool, arguments,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub const NAME: &str = "external_agents";

#[derive(Debug)]
struct ExternalAgents(Arc<AgentManager>);

/// The tool, for the agents of this manager.
#[must_use]
pub fn tool(agent_manager: AgentManager) -> Tool {
    Tool::typed(ExternalAgents(Arc::new(agent_manager)))
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AgentsAction {
    /// Lists the connected agents and others found on the machine.
    List,
    /// Updates the agents' instruction files.
    Sync,
    Pause,
    Resume,
    /// Removes a connection from the agent's files.
    Remove,
}

impl AgentsAction {
    fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Sync => "sync",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Remove => "remove",
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    action: AgentsAction,
    /// The connection; with sync, restricts it to this one.
    key: Option<String>,
    /// With sync: the content for the instruction files.
    instructions: Option<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// Result of the action.
    answer: Value,
    /// With remove: tokens that are no longer used.
    tokens: Vec<String>,
}

impl TypedTool for ExternalAgents {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        let action = |action: AgentsAction, access: Access| Action::new(action.name(), access);
        ToolSpec::node(
            NAME,
            "External agents",
            "Manages the agents of a machine that are connected to the hub. Only the hub itself calls it.",
            Access::READ,
        )
        .with_actions(vec![
            action(AgentsAction::List, Access::READ),
            action(AgentsAction::Sync, Access::SET),
            action(AgentsAction::Pause, Access::SET),
            action(AgentsAction::Resume, Access::SET),
            action(AgentsAction::Remove, Access::REMOVE),
        ])
        .for_programs()
        .without_record_of(&["instructions"])
    }

    async fn run(&self, _: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let agent_manager = self.0.clone();
        let worked = tokio::task::spawn_blocking(move || answer(&agent_manager, &args)).await;
        let stopped =
            |_| CallError::new(ErrorCode::Internal, "the operation on the agents' files was aborted");
        let (answer, tokens) = worked.map_err(stopped)??;
        Ok(Outcome::Ready(ToolOutput::new("", &Output { answer, tokens })))
    }
}

fn answer(agent_manager: &AgentManager, args: &Args) -> Result<(Value, Vec<String>), CallError> {
    let key = || args.key.as_deref().ok_or_else(|| arguments::missing(NAME, "key", args.action.name()));
    let answer = match args.action {
        // The hub knows which machine this is.
        AgentsAction::List => json!(agent_manager.list("").map_err(failed)?),
        AgentsAction::Sync => {
            let given = args.instructions.clone();
            let given = given.ok_or_else(|| arguments::missing(NAME, "instructions", "sync"))?;
            let given: ExternalAgentInstructions = serde_json::from_value(given).map_err(|error| {
                let problem = json!({ "path": "/instructions", "message": error.to_string() });
                arguments::invalid(NAME, vec![problem])
            })?;
            let content = InstructionContent::from(&given);
            json!(agent_manager.sync(&content, &given.agents, args.key.as_deref()).map_err(failed)?)
        }
        AgentsAction::Pause => json!(agent_manager.pause(key()?, true).map_err(failed)?),
        AgentsAction::Resume => json!(agent_manager.pause(key()?, false).map_err(failed)?),
        AgentsAction::Remove => {
            let Some(removed) = agent_manager.remove(key()?, ConflictPolicy::Skip).map_err(failed)? else {
                return Ok((Value::Null, Vec::new()));
            };
            let tokens = removed.tokens.iter().map(ToString::to_string).collect();
            return Ok((json!(RemovedExternalAgent::from(&removed)), tokens));
        }
    };
    Ok((answer, Vec::new()))
}

fn failed(error: BridgeError) -> CallError {
    let code = if error.is_retryable() { ErrorCode::Unavailable } else { ErrorCode::ToolFailed };
    let fix = error.fix();
    CallError::new(code, error.to_string()).hint(fix)
}
