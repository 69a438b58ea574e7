//! The manifest of a user-defined tool as a type: editors and checks have their schema from it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::file_schema::{FileSchema, Words};

pub(super) static SCHEMA: LazyLock<FileSchema> =
    LazyLock::new(|| FileSchema::of::<Manifest>(Words { elsewhere, wanted }));

/// The schema as it is committed.
#[must_use]
pub fn schema_file() -> String {
    SCHEMA.text()
}

/// A tool that is a program of yours: JSON arguments on its standard input, a result on its standard output.
///
/// It runs only when it is named in the setting `tools.enabled`, or by `plexus tools enable`.
// No `Debug`: it may hold credentials.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "User-defined tool")]
pub(super) struct Manifest {
    /// Address of this schema, for editors.
    #[serde(rename = "$schema")]
    pub(super) _schema: Option<String>,
    /// Name of the tool, which is that of its file or folder; may be left out.
    pub(super) name: Option<String>,
    /// Name for people; without it, the name.
    pub(super) title: Option<String>,
    /// What it does and when to use it: all that a model knows of it.
    pub(super) description: Option<String>,
    /// JSON Schema of its arguments, of type object; without it, there are none.
    pub(super) input_schema: Option<Map<String, Value>>,
    /// JSON Schema of what it writes, of type object; another result is an error.
    pub(super) output_schema: Option<Map<String, Value>>,
    /// What it writes to its standard output: one JSON value, or text.
    #[schemars(extend("default" = "json"))]
    pub(super) output: Option<OutputForm>,
    /// The program: a path that begins in the folder of this file, or an absolute one. There is no shell.
    pub(super) command: Option<String>,
    /// Its arguments. Other users of the machine can read them: credentials belong in `env`.
    pub(super) args: Vec<String>,
    /// Variables for it, besides the few that every program gets. They may have `${env:NAME}` and `${file:PATH}` in them.
    pub(super) env: BTreeMap<String, String>,
    /// Time for one call: text such as "30s" or "5m", or a number of seconds. Then it is killed.
    pub(super) timeout: Option<Time>,
    /// Most bytes of its standard output; one that writes more is killed.
    #[schemars(range(min = 1, max = 8_388_608))]
    pub(super) output_bytes: Option<u32>,
    /// Calls at the same time; more wait.
    #[schemars(range(min = 1, max = 256))]
    pub(super) concurrency: Option<u16>,
    /// What a call means for the world.
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
    /// It changes nothing.
    pub(super) read_only: bool,
    /// It may take something away or overwrite it.
    pub(super) destructive: bool,
    /// To call it twice is as to call it once.
    pub(super) idempotent: bool,
    /// It deals with the world beyond this machine.
    pub(super) open_world: bool,
}

/// What has to be reckoned with where nothing is said.
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

fn elsewhere(key: &str) -> Option<&'static str> {
    Some(match key {
        "inputSchema" | "parameters" => "here it is `input_schema`",
        "outputSchema" => "here it is `output_schema`",
        "enabled" => {
            "a tool is switched on by `plexus tools enable NAME` or the setting `tools.enabled`, not by its own file"
        }
        "cwd" => "a tool runs in the folder of its file",
        "max_concurrency" => "here it is `concurrency`",
        _ => return None,
    })
}

fn wanted(path: &[&str]) -> &'static str {
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
