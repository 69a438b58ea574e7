//! `/api/v1/upstreams`: what is sent and answered where servers are added, tried, imported and taken away.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{Upstream, UpstreamEra, UpstreamTransport};

/// A server with what only a closer look tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamDetail {
    #[serde(flatten)]
    pub upstream: Upstream,
    /// Its file as it is written: references not filled in, literal credentials masked. Null when it cannot be read.
    #[schema(required, value_type = Option<Object>)]
    pub document: Option<Value>,
}

/// Body of `POST /api/v1/upstreams`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddUpstreamParams {
    /// Name of its file, without the ending.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub name: String,
    /// As it is to stand in its file.
    #[schema(value_type = Object)]
    pub server: Map<String, Value>,
}

/// Body of `POST /api/v1/upstreams/{server}/test`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TestUpstreamParams {
    /// What would stand in its file; absent: the server that there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub server: Option<Map<String, Value>>,
}

/// What came of an attempt to reach a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamTest {
    /// Whether it answered and listed its tools.
    pub success: bool,
    #[schema(required)]
    pub transport: Option<UpstreamTransport>,
    /// Revision and era that were agreed on.
    #[schema(required)]
    pub revision: Option<String>,
    #[schema(required)]
    pub era: Option<UpstreamEra>,
    /// Name and version that the server gave itself.
    #[schema(required)]
    pub server: Option<String>,
    /// Names under which its tools would be listed.
    pub tools: Vec<String>,
    /// Why it did not work, and what to do about it.
    #[schema(required)]
    pub error: Option<String>,
    /// The end of what its process wrote to its standard error.
    pub stderr: Vec<String>,
    /// What is strange about its configuration but stops nothing.
    pub warnings: Vec<String>,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
}

/// The newest lines that a server's process wrote to its standard error, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamLogs {
    pub lines: Vec<String>,
}

/// A server that is no longer there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedUpstream {
    pub name: String,
    /// Where its file is kept; moved back, the server is there again.
    pub backup: String,
}

/// Body of `POST /api/v1/upstreams/-/import`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportUpstreamsParams {
    /// Name of the file, which helps to tell whose it is.
    #[schema(min_length = 1, max_length = 255)]
    pub file_name: String,
    /// What stands in it, such as `{"mcpServers": …}`.
    pub content: String,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// What an import has done, or would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamImport {
    pub dry_run: bool,
    pub added: Vec<ImportedUpstream>,
    pub skipped: Vec<SkippedUpstream>,
    /// What is strange about the file but stops nothing.
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
    /// What stands in its file, with literal credentials masked.
    #[schema(value_type = Object)]
    pub document: Value,
}

/// A server of an imported file that is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkippedUpstream {
    pub name: String,
    /// Why, and what to do about it.
    pub reason: String,
    /// The command that the hub's machine would have to allow; there only if nothing else is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub command: Option<String>,
}

/// How many servers there are, and how they are doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamCounts {
    pub total: usize,
    pub ready: usize,
    /// Being started, for the first time or again.
    pub starting: usize,
    /// They rest, and the next call starts them.
    pub idle: usize,
    pub disabled: usize,
    /// Not there; another attempt follows.
    #[serde(default)]
    #[schema(required)]
    pub down: usize,
    /// Given up after too many crashes.
    #[serde(default)]
    #[schema(required)]
    pub failed: usize,
    /// Their files are wrong.
    #[serde(default)]
    #[schema(required)]
    pub invalid: usize,
    /// Wanting a login.
    #[serde(default)]
    #[schema(required)]
    pub needs_login: usize,
    /// Tools of theirs that wait to be approved; told to admins only, others are told 0.
    #[serde(default)]
    #[schema(required)]
    pub quarantined: usize,
}
