//! `/api/v1/tools/-/defined` and what switches them: tools that are programs of the user.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::CallId;

/// How a user-defined tool is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DefinedToolState {
    /// It can be called.
    Enabled,
    /// Nobody has switched it on.
    Disabled,
    /// Its manifest or its program cannot be used.
    Invalid,
}

/// Who has switched a tool on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnabledBy {
    /// The setting `tools.enabled`.
    Configuration,
    /// `plexus tools enable`.
    Command,
}

/// A tool that there is a manifest for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DefinedTool {
    pub name: String,
    pub description: String,
    /// Its manifest.
    pub file: String,
    pub state: DefinedToolState,
    #[schema(required)]
    pub enabled_by: Option<EnabledBy>,
    /// Everything that is wrong with it.
    pub problems: Vec<String>,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DefinedTools {
    /// The folder with the manifests.
    pub dir: String,
    /// By name.
    pub items: Vec<DefinedTool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArgumentProblem {
    /// JSON pointer into the arguments.
    pub path: String,
    pub message: String,
}

/// How a tool did that was tried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolTrial {
    pub tool: String,
    /// The call, as recorded under the name of the tool.
    pub call_id: CallId,
    pub success: bool,
    /// Whether its program was started.
    pub ran: bool,
    /// How the program ended; null where it was killed or not started.
    #[schema(required)]
    pub exit: Option<String>,
    #[schema(required)]
    pub exit_code: Option<i32>,
    pub elapsed_ms: u64,
    /// The last lines of its standard error.
    pub stderr: Vec<String>,
    /// What is wrong with the arguments.
    pub problems: Vec<ArgumentProblem>,
    /// Why it did not work.
    #[schema(required)]
    pub error: Option<String>,
    /// What it gave.
    #[schema(required)]
    pub text: Option<String>,
    #[schema(value_type = Value, required)]
    pub structured: Option<Value>,
}
