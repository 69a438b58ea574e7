//! The manifest of a user-defined tool. The JSON Schema for editors and validation is derived from its type.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::file_schema::{FieldHints, FileSchema};

pub(super) static SCHEMA: LazyLock<FileSchema> =
    LazyLock::new(|| FileSchema::of::<Manifest>(FieldHints { misplaced_key_hint, value_hint }));

/// The schema as it is committed.
#[must_use]
pub fn schema_file() -> String {
    SCHEMA.text()
}

/// A tool that runs your own program, with JSON arguments on standard input and the result on standard output.
///
/// It is disabled until the setting `tools.enabled` or `plexus tools enable` names it.
// Not `Debug`, because it may contain credentials.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "User-defined tool")]
pub(super) struct Manifest {
    /// URL of this schema, for editors.
    #[serde(rename = "$schema")]
    pub(super) _schema: Option<String>,
    /// Name of the tool, the same as that of its file or folder. Optional.
    pub(super) name: Option<String>,
    /// Display name. Default: the name.
    pub(super) title: Option<String>,
    /// Describes to models what the tool does and when to use it.
    pub(super) description: Option<String>,
    /// JSON Schema of the arguments, of type object. Default: no arguments.
    pub(super) input_schema: Option<Map<String, Value>>,
    /// JSON Schema of the result, of type object. Any other result is an error.
    pub(super) output_schema: Option<Map<String, Value>>,
    /// Format of standard output: one JSON value, or text.
    #[schemars(extend("default" = "json"))]
    pub(super) output: Option<OutputForm>,
    /// The program: an absolute path, or a path relative to the folder of this file. No shell is used.
    pub(super) command: Option<String>,
    /// Arguments of the program. Other users of the machine can read them: put credentials into `env`.
    pub(super) args: Vec<String>,
    /// Variables of the program, besides the few that every program gets. May contain `${env:NAME}` and `${file:PATH}`.
    pub(super) env: BTreeMap<String, String>,
    /// Time limit of a call, then the program is killed: text such as "30s" or "5m", or a number of seconds.
    pub(super) timeout: Option<Time>,
    /// Maximum size of standard output in bytes. A program that writes more is killed.
    #[schemars(range(min = 1, max = 8_388_608))]
    pub(super) output_bytes: Option<u32>,
    /// Maximum number of concurrent calls. Further calls wait.
    #[schemars(range(min = 1, max = 256))]
    pub(super) concurrency: Option<u16>,
    /// Hints for clients about the effects of a call.
    pub(super) annotations: Annotations,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputForm {
    #[default]
    Json,
    Text,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Annotations {
    /// It does not change anything.
    pub(super) read_only: bool,
    /// It may delete or overwrite something.
    pub(super) destructive: bool,
    /// Calling it twice has the same effect as calling it once.
    pub(super) idempotent: bool,
    /// It interacts with systems outside this machine.
    pub(super) open_world: bool,
}

/// Assumes the worst case for omitted hints.
impl Default for Annotations {
    fn default() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Time {
    Seconds(u64),
    Text(String),
}

fn misplaced_key_hint(key: &str) -> Option<&'static str> {
    Some(match key {
        "inputSchema" | "parameters" => "use `input_schema`",
        "outputSchema" => "use `output_schema`",
        "enabled" => {
            "a tool is enabled by `plexus tools enable NAME` or the setting `tools.enabled`, not by its own file"
        }
        "cwd" => "a tool runs in the folder of its file",
        "max_concurrency" => "use `concurrency`",
        _ => return None,
    })
}

fn value_hint(path: &[&str]) -> &'static str {
    match path {
        ["input_schema" | "output_schema", ..] => {
            r#"write a JSON Schema, such as {"type": "object", "properties": {}}"#
        }
        ["output"] => r#"write "json" or "text", or leave it out"#,
        ["command"] => r#"write the path of a program as text, such as "run.sh""#,
        ["args"] => r#"write a list of texts, such as ["--fast"]"#,
        ["env"] => r#"write an object of texts, such as {"LOG_LEVEL": "info"}"#,
        ["timeout"] => r#"write a text such as "30s" or "5m", or a number of seconds"#,
        ["output_bytes"] => "write a whole number from 1 to 8388608",
        ["concurrency"] => "write a whole number from 1 to 256",
        ["annotations"] => "write an object with read_only, destructive, idempotent or open_world",
        ["annotations", _] => "write true or false, without quotes",
        [] => "write an object",
        _ => "write text, in quotes",
    }
}
