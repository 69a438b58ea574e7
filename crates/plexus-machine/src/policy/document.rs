//! The format of `node.toml`: its keys, their types, and the hints shown for invalid values.

use std::sync::LazyLock;

use plexus_tools::file_schema::{FieldHints, FileSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) static SCHEMA: LazyLock<FileSchema> = LazyLock::new(|| {
    FileSchema::of::<Document>(FieldHints { misplaced_key_hint, value_hint: expected_value })
});

/// The JSON schema, as committed to the repository.
#[must_use]
pub fn schema_file() -> String {
    SCHEMA.text()
}

/// What tools may do on this machine, whatever a hub requests.
///
/// An omitted key has its default; `plexus node policy --default` prints all defaults.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Policy of a node")]
pub(super) struct Document {
    pub(super) tools: Tools,
    pub(super) files: Files,
    pub(super) commands: Commands,
    pub(super) environment: Variables,
    pub(super) sandbox: Sandbox,
    pub(super) code: Code,
    pub(super) ssh: Ssh,
    pub(super) images: Images,
}

/// The tools that can be called on this machine.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tools {
    /// Names of enabled tools; `*` matches any text.
    pub(super) on: Option<Vec<String>>,
    /// Names of disabled tools. Takes precedence over `on`.
    pub(super) off: Option<Vec<String>>,
}

/// The paths that file tools can access.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Files {
    /// Folders that can be read, including everything in them; `~` is the home folder.
    pub(super) read: Option<Vec<String>>,
    /// Folders that can be written and read.
    pub(super) write: Option<Vec<String>>,
    /// The folder in which commands start and against which relative paths are resolved. The node creates it if it
    /// does not exist.
    pub(super) work: Option<String>,
    /// Files and folders within those that can be read but not written.
    pub(super) read_only: Option<Vec<String>>,
    /// Files and folders that no tool can access, in addition to credentials, which are always denied.
    pub(super) deny: Option<Vec<String>>,
}

/// The commands that `terminal` can run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Commands {
    /// Prefixes of allowed commands, compared word by word; `*` allows all.
    pub(super) allow: Option<Vec<String>>,
    /// Prefixes of denied commands.
    pub(super) deny: Option<Vec<String>>,
}

/// The environment variables of commands.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Variables {
    /// Variables of the node that commands inherit; `*` matches any text.
    pub(super) pass: Option<Vec<String>>,
    /// Variables that a caller may set for a command.
    pub(super) set: Option<Vec<String>>,
}

/// The sandbox of commands and code.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sandbox {
    /// `auto` selects the strongest level that works on this machine. With any other level, commands are refused if
    /// that level does not work.
    pub(super) level: Option<Level>,
    /// Whether commands and code can use the network.
    pub(super) network: Option<bool>,
}

/// The sandbox level of commands and code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The strongest level that works on this machine.
    #[default]
    Auto,
    /// No sandbox: commands have the rights of the user that the node runs as.
    None,
    /// Landlock rules for files, and a system call filter.
    Landlock,
    /// A separate view of the file system, set up by `bwrap`, and the same system call filter.
    Bubblewrap,
}

/// Limits of `code_exec`, for a snippet including all processes that it starts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Code {
    /// Maximum run time in seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub(super) seconds: Option<u64>,
    /// CPU time in seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub(super) cpu_seconds: Option<u64>,
    /// Memory in mebibytes.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub(super) memory_mb: Option<u64>,
    /// Mebibytes of one file, and of all files in the snippet's folder.
    #[schemars(range(min = 1, max = 65_536))]
    pub(super) file_mb: Option<u64>,
    /// Number of concurrent processes.
    #[schemars(range(min = 1, max = 4096))]
    pub(super) processes: Option<u64>,
    /// Kibibytes retained of each output stream. A snippet that writes 64 times as much is killed.
    #[schemars(range(min = 1, max = 1024))]
    pub(super) output_kb: Option<u64>,
}

/// The hosts that `ssh_exec` can connect to.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Ssh {
    /// Hosts by the names that callers use; `*` matches any text.
    pub(super) hosts: Option<Vec<String>>,
}

/// The sources that `image_view` can fetch from.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Images {
    /// Whether images can be fetched from URLs.
    pub(super) urls: Option<bool>,
    /// Whether URLs may also point to this machine and its private networks.
    pub(super) private_networks: Option<bool>,
}

fn misplaced_key_hint(key: &str) -> Option<&'static str> {
    Some(match key {
        "roots" | "paths" => "node.toml uses `read` and `write` in [files]",
        "limits" => "node.toml uses [code]",
        "env" => "node.toml uses [environment]",
        _ => return None,
    })
}

fn expected_value(path: &[&str]) -> &'static str {
    match path {
        ["tools", ..] => r#"write a list of names, such as ["terminal", "filesystem"]"#,
        ["files", "work"] => r#"write a path that begins with / or ~, such as "~/plexus-work""#,
        ["files", ..] => r#"write a list of paths that begin with / or ~, such as ["~/work"]"#,
        ["commands", ..] => r#"write a list of command prefixes, such as ["git", "cargo test"]"#,
        ["environment", ..] => r#"write a list of names, such as ["PATH", "LC_*"]"#,
        ["sandbox", "level"] => r#"write "auto", "none", "landlock" or "bubblewrap""#,
        ["sandbox", "network"] | ["images", _] => "write true or false, without quotes",
        ["code", "seconds" | "cpu_seconds"] => "write a whole number from 1 to 3600",
        ["code", "memory_mb"] => "write a whole number from 16 to 1048576",
        ["code", "file_mb"] => "write a whole number from 1 to 65536",
        ["code", "processes"] => "write a whole number from 1 to 4096",
        ["code", "output_kb"] => "write a whole number from 1 to 1024",
        ["ssh", ..] => r#"write a list of hosts, such as ["nas", "*.example.net"]"#,
        _ => "see the documentation of node.toml for the format",
    }
}
