//! `/api/v1/tools`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::Object;
use utoipa::openapi::schema::{SchemaType, Type};

use crate::{CallId, SessionId};

/// Hints for clients, as defined by MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    pub read_only_hint: bool,
    pub destructive_hint: bool,
    pub idempotent_hint: bool,
    pub open_world_hint: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolAction {
    pub name: String,
    pub scope: String,
    pub annotations: ToolAnnotations,
    /// Whether the local proxy may accept the call while the hub is unreachable.
    pub bufferable: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Tool {
    pub name: String,
    pub title: String,
    pub description: String,
    /// `hub`, `node`, `upstream:<server>`, or `upstream:<server>@<node>` for a server that runs on a node.
    pub placement: String,
    pub scope: String,
    pub annotations: ToolAnnotations,
    pub actions: Vec<ToolAction>,
    pub deadline_seconds: u64,
    /// JSON Schema of the arguments.
    #[schema(value_type = Object)]
    pub input_schema: Value,
    /// JSON Schema of `structured` in a result, if the tool has one.
    #[schema(value_type = Option<Object>, required)]
    pub output_schema: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallToolParams {
    /// As described by the tool's `input_schema`; null or absent for no arguments.
    #[serde(default)]
    #[schema(schema_with = object_or_null)]
    pub arguments: Value,
}

fn object_or_null() -> Object {
    Object::builder().schema_type(SchemaType::Array(vec![Type::Object, Type::Null])).build()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallToolResponse {
    pub call_id: CallId,
    pub session_id: SessionId,
    /// Canonical name, regardless of the spelling in the request.
    pub tool: String,
    /// False: the tool ran and failed; see `text`.
    pub success: bool,
    /// The result of an earlier call with the same idempotency key.
    pub replayed: bool,
    pub text: String,
    /// The result as data, if the tool has an `output_schema`.
    #[schema(value_type = Value, required)]
    pub structured: Option<Value>,
    /// The content blocks of an upstream server's result, unmodified and including images and links; absent
    /// for tools of the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>, nullable = false)]
    pub content: Option<Value>,
}
