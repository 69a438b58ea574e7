//! The arguments of `ssh_exec`.

use std::time::Duration;

use plexus_tools::Alias;
use schemars::JsonSchema;
use serde::Deserialize;

/// The default timeout of a call, including a connection that it may have to open.
pub(super) const DEFAULT_TIME: Duration = Duration::from_secs(120);
/// The maximum timeout.
pub(super) const MAX_TIME: Duration = Duration::from_secs(86_400);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SshAction {
    /// Run a command on `host` and wait for it to end: needs `command` or `argv`. It is killed after `timeout_seconds`.
    Run,
    /// Copy the file `path` of this machine to `remote_path` on `host`. An existing file is replaced atomically.
    Upload,
    /// Copy the file `remote_path` of `host` to `path` on this machine. An existing file is replaced atomically.
    Download,
    /// List the open connections of this session.
    List,
    /// Close the connections to `host`, or all connections of this session.
    Close,
}

impl SshAction {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Upload => "upload",
            Self::Download => "download",
            Self::List => "list",
            Self::Close => "close",
        }
    }
}

/// Argument names that agents know from their own tools.
pub(super) const ALIASES: &[Alias] = &[
    Alias::new("host", &["hostname"]),
    Alias::new("user", &["username"]),
    Alias::new("command", &["cmd", "command_line", "script"]),
    Alias::new("cwd", &["working_directory", "workingDirectory", "working_dir", "workdir", "directory"]),
    Alias::new("path", &["local_path", "file_path", "filename"]),
    Alias::new("remote_path", &["remote_file"]),
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(super) action: SshAction,
    /// Name or address of the host, or its alias in the ssh configuration of the machine; without user and port.
    pub(super) host: Option<String>,
    /// User to log in as (default: from the ssh configuration, or the user of the node).
    pub(super) user: Option<String>,
    /// Port (default: from the ssh configuration, or 22).
    #[schemars(range(min = 1, max = 65_535))]
    pub(super) port: Option<u16>,
    /// `run`: a command line for the shell of the host (`sh -c`). Give either this or `argv`.
    #[schemars(length(min = 1))]
    pub(super) command: Option<String>,
    /// `run`: a program on the host and its arguments, run without shell interpretation.
    #[schemars(length(min = 1))]
    pub(super) argv: Option<Vec<String>>,
    /// `run`: folder on the host to run in, absolute or starting with `~/` (default: the home folder on the host).
    pub(super) cwd: Option<String>,
    /// `run`: the complete standard input of the command; empty by default.
    pub(super) stdin: Option<String>,
    /// `upload`, `download`: file on this machine: absolute, starting with `~/`, or relative to the working folder.
    pub(super) path: Option<String>,
    /// `upload`, `download`: file on the host, absolute or relative to its home folder.
    pub(super) remote_path: Option<String>,
    /// Maximum duration in seconds, including the connection (default 120).
    #[schemars(range(min = 1, max = 86_400))]
    pub(super) timeout_seconds: Option<u64>,
}
