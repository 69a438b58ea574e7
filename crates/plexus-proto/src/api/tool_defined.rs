//! `/api/v1/tools/-/defined` and the routes that enable and disable such tools: programs of the user that
//! serve as tools.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::CallId;

/// State of a user-defined tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DefinedToolState {
    /// Can be called.
    Enabled,
    /// Not enabled.
    Disabled,
    /// Its manifest or program is invalid.
    Invalid,
}

/// How a tool was enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnabledBy {
    /// The setting `tools.enabled`.
    Configuration,
    /// `plexus tools enable`.
    Command,
}

/// A tool with a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DefinedTool {
    pub name: String,
    pub description: String,
    /// Path of the manifest.
    pub file: String,
    pub state: DefinedToolState,
    #[schema(required)]
    pub enabled_by: Option<EnabledBy>,
    /// All errors found.
    pub problems: Vec<String>,
}

/// All user-defined tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DefinedTools {
    /// The folder that contains the manifests.
    pub dir: String,
    /// Sorted by name.
    pub items: Vec<DefinedTool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArgumentProblem {
    /// JSON pointer into the arguments.
    pub path: String,
    pub message: String,
}

/// Result of a trial call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolTrial {
    pub tool: String,
    /// The call, recorded under the tool's name.
    pub call_id: CallId,
    pub success: bool,
    /// Whether the tool's program was started.
    pub ran: bool,
    /// How the program ended; null if it was killed or not started.
    #[schema(required)]
    pub exit: Option<String>,
    #[schema(required)]
    pub exit_code: Option<i32>,
    pub elapsed_ms: u64,
    /// The last lines of its standard error.
    pub stderr: Vec<String>,
    /// Errors in the arguments.
    pub problems: Vec<ArgumentProblem>,
    /// Why the call failed.
    #[schema(required)]
    pub error: Option<String>,
    /// The tool's output.
    #[schema(required)]
    pub text: Option<String>,
    #[schema(value_type = Value, required)]
    pub structured: Option<Value>,
}
