//! `/api/v1/upstreams`: requests and answers for adding, testing, importing and removing servers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{Upstream, UpstreamEra, UpstreamTransport};

/// A server with its details.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamDetail {
    #[serde(flatten)]
    pub upstream: Upstream,
    /// The file as written: references not resolved, literal credentials masked. Null if it cannot be read.
    #[schema(required, value_type = Option<Object>)]
    pub document: Option<Value>,
}

/// Body of `POST /api/v1/upstreams`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddUpstreamParams {
    /// Name of its file, without the extension.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub name: String,
    /// Content of its file.
    #[schema(value_type = Object)]
    pub server: Map<String, Value>,
}

/// Body of `POST /api/v1/upstreams/{server}/test`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TestUpstreamParams {
    /// The file content to test; absent: the existing server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub server: Option<Map<String, Value>>,
}

/// Result of a connection test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamTest {
    /// Whether the server answered and listed its tools.
    pub success: bool,
    #[schema(required)]
    pub transport: Option<UpstreamTransport>,
    /// Negotiated protocol revision.
    #[schema(required)]
    pub revision: Option<String>,
    #[schema(required)]
    pub era: Option<UpstreamEra>,
    /// Name and version reported by the server.
    #[schema(required)]
    pub server: Option<String>,
    /// Names under which its tools would be listed.
    pub tools: Vec<String>,
    /// Why the test failed, and how to fix it.
    #[schema(required)]
    pub error: Option<String>,
    /// The last lines that its process wrote to its standard error.
    pub stderr: Vec<String>,
    /// Suspicious but harmless settings in its configuration.
    pub warnings: Vec<String>,
    /// Duration in milliseconds.
    pub elapsed_ms: u64,
}

/// The newest lines that a server's process wrote to its standard error, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamLogs {
    pub lines: Vec<String>,
}

/// A removed server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedUpstream {
    pub name: String,
    /// Path of the backup; moving it back restores the server.
    pub backup: String,
}

/// Body of `POST /api/v1/upstreams/-/import`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportUpstreamsParams {
    /// Name of the file, which helps to detect the program that it belongs to.
    #[schema(min_length = 1, max_length = 255)]
    pub file_name: String,
    /// Content of the file, such as `{"mcpServers": …}`.
    pub content: String,
    /// Only report what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// Result of an import, or of its dry run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamImport {
    pub dry_run: bool,
    pub added: Vec<ImportedUpstream>,
    pub skipped: Vec<SkippedUpstream>,
    /// Suspicious but harmless parts of the file.
    pub warnings: Vec<String>,
    /// Entries that are not servers to import, such as that of the hub itself.
    #[serde(default)]
    #[schema(required)]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImportedUpstream {
    pub name: String,
    pub file: String,
    /// Content of the file, with literal credentials masked.
    #[schema(value_type = Object)]
    pub document: Value,
}

/// A server of an imported file that was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkippedUpstream {
    pub name: String,
    /// Why, and how to fix it.
    pub reason: String,
    /// The command that the hub's machine would have to allow; there only if nothing else is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub command: Option<String>,
    /// The hub already has a server of this name with the same document.
    #[serde(default)]
    #[schema(required)]
    pub exists: bool,
}

/// Number of servers by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamCounts {
    pub total: usize,
    pub ready: usize,
    /// Starting or restarting.
    pub starting: usize,
    /// Stopped while unused; the next call starts them.
    pub idle: usize,
    pub disabled: usize,
    /// Unreachable; another attempt follows.
    #[serde(default)]
    #[schema(required)]
    pub down: usize,
    /// Given up after too many crashes.
    #[serde(default)]
    #[schema(required)]
    pub failed: usize,
    /// Servers with an invalid file.
    #[serde(default)]
    #[schema(required)]
    pub invalid: usize,
    /// Servers that require a login.
    #[serde(default)]
    #[schema(required)]
    pub needs_login: usize,
    /// Tools awaiting approval; 0 for non-admins.
    #[serde(default)]
    #[schema(required)]
    pub quarantined: usize,
}
