//! `node.toml` as it is written: its keys, their form, and what to write where something is wrong.

use std::sync::LazyLock;

use plexus_tools::file_schema::{FileSchema, Words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) static SCHEMA: LazyLock<FileSchema> =
    LazyLock::new(|| FileSchema::of::<Document>(Words { elsewhere, wanted }));

/// The schema as it is committed.
#[must_use]
pub fn schema_file() -> String {
    SCHEMA.text()
}

/// What may be done on this machine, whatever a hub asks for.
///
/// A key that is left out has its default; `plexus node policy --default` prints them all.
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

/// Which tools can be called here.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tools {
    /// Names of tools that are on; `*` stands for any text.
    pub(super) on: Option<Vec<String>>,
    /// Names of tools that are off, whatever `on` says.
    pub(super) off: Option<Vec<String>>,
}

/// What tools that work on files can reach.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Files {
    /// Folders that can be read, with all that is in them; `~` is the home folder.
    pub(super) read: Option<Vec<String>>,
    /// Folders that can be written, which can also be read.
    pub(super) write: Option<Vec<String>>,
    /// Folder that commands start in and relative paths begin in. It is made if it does not exist.
    pub(super) work: Option<String>,
    /// Files and folders in those that can be read and not written.
    pub(super) read_only: Option<Vec<String>>,
    /// Files and folders that are out of reach, besides credentials, which always are.
    pub(super) deny: Option<Vec<String>>,
}

/// What commands can be run by `terminal`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Commands {
    /// Beginnings of commands, word by word, that can be run; `*` for all.
    pub(super) allow: Option<Vec<String>>,
    /// Beginnings of commands that cannot.
    pub(super) deny: Option<Vec<String>>,
}

/// What commands see of the environment.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Variables {
    /// Variables of the node that commands get; `*` stands for any text.
    pub(super) pass: Option<Vec<String>>,
    /// Variables that a caller may set for a command.
    pub(super) set: Option<Vec<String>>,
}

/// What holds commands and code back.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sandbox {
    /// `auto` takes the strongest that this machine has; with another one, nothing is run where it is missing.
    pub(super) level: Option<Level>,
    /// Whether what is run can use the network.
    pub(super) network: Option<bool>,
}

/// How commands and code are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The strongest that this machine has.
    #[default]
    Auto,
    /// Nothing but the user that the node runs as.
    None,
    /// Rules of the kernel for files, and a filter of system calls.
    Landlock,
    /// A view of the file system of its own, by `bwrap`, and the same filter.
    Bubblewrap,
}

/// Limits of `code_exec`, for a snippet with all that it starts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Code {
    /// Seconds that a snippet may take at most.
    #[schemars(range(min = 1, max = 3600))]
    pub(super) seconds: Option<u64>,
    /// Seconds of processor time.
    #[schemars(range(min = 1, max = 3600))]
    pub(super) cpu_seconds: Option<u64>,
    /// Mebibytes of memory.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub(super) memory_mb: Option<u64>,
    /// Mebibytes of one file, and of all files in its folder.
    #[schemars(range(min = 1, max = 65_536))]
    pub(super) file_mb: Option<u64>,
    /// Processes at the same time.
    #[schemars(range(min = 1, max = 4096))]
    pub(super) processes: Option<u64>,
    /// Kibibytes that are kept of each output. One that writes 64 times as much is ended.
    #[schemars(range(min = 1, max = 1024))]
    pub(super) output_kb: Option<u64>,
}

/// Where `ssh_exec` may go.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Ssh {
    /// Hosts by the names that callers use; `*` stands for any text.
    pub(super) hosts: Option<Vec<String>>,
}

/// What `image_view` may fetch.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Images {
    /// Whether images can be fetched from URLs.
    pub(super) urls: Option<bool>,
    /// Also from addresses of this machine and of its own network.
    pub(super) private_networks: Option<bool>,
}

fn elsewhere(key: &str) -> Option<&'static str> {
    Some(match key {
        "roots" | "paths" => "here it is `read` and `write` in [files]",
        "limits" => "here it is [code]",
        "env" => "here it is [environment]",
        _ => return None,
    })
}

fn wanted(path: &[&str]) -> &'static str {
    match path {
        ["tools", ..] => r#"write a list of names, such as ["terminal", "filesystem"]"#,
        ["files", "work"] => r#"write a path that begins with / or ~, such as "~/plexus-work""#,
        ["files", ..] => r#"write a list of paths that begin with / or ~, such as ["~/work"]"#,
        ["commands", ..] => r#"write a list of beginnings of commands, such as ["git", "cargo test"]"#,
        ["environment", ..] => r#"write a list of names, such as ["PATH", "LC_*"]"#,
        ["sandbox", "level"] => r#"write "auto", "none", "landlock" or "bubblewrap""#,
        ["sandbox", "network"] | ["images", _] => "write true or false, without quotes",
        ["code", "seconds" | "cpu_seconds"] => "write a whole number from 1 to 3600",
        ["code", "memory_mb"] => "write a whole number from 16 to 1048576",
        ["code", "file_mb"] => "write a whole number from 1 to 65536",
        ["code", "processes"] => "write a whole number from 1 to 4096",
        ["code", "output_kb"] => "write a whole number from 1 to 1024",
        ["ssh", ..] => r#"write a list of hosts, such as ["nas", "*.example.net"]"#,
        _ => "write it as the documentation of node.toml shows",
    }
}
