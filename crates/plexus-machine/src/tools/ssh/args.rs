//! What a caller of `ssh_exec` may say.

use std::time::Duration;

use plexus_tools::Alias;
use schemars::JsonSchema;
use serde::Deserialize;

/// How long a call takes at most, with the connection that it may have to make, if nothing is said.
pub(super) const DEFAULT_TIME: Duration = Duration::from_secs(120);
/// How long it can be told to take.
pub(super) const LONGEST: Duration = Duration::from_secs(86_400);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SshAction {
    /// Run a command on `host` and wait for its end: needs `command` or `argv`. It is ended after `timeout_seconds`.
    Run,
    /// Copy the file `path` of this machine to `remote_path` on `host`. What is there is replaced as a whole.
    Upload,
    /// Copy the file `remote_path` of `host` to `path` on this machine. What is there is replaced as a whole.
    Download,
    /// Show the connections of this session that are open.
    List,
    /// Close those to `host`, or all of this session.
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

/// As agents call them in tools of their own.
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
    /// Name or address of the host, or its alias in the ssh configuration of the machine; without a user or a port.
    pub(super) host: Option<String>,
    /// User to log in as; else what the ssh configuration says, or the user of the node.
    pub(super) user: Option<String>,
    /// Port; else what the ssh configuration says, or 22.
    #[schemars(range(min = 1, max = 65_535))]
    pub(super) port: Option<u16>,
    /// `run`: a line for the shell of the host (`sh -c`). Either this or `argv`.
    #[schemars(length(min = 1))]
    pub(super) command: Option<String>,
    /// `run`: a program of the host and its arguments, without a shell to interpret them.
    #[schemars(length(min = 1))]
    pub(super) argv: Option<Vec<String>>,
    /// `run`: folder on the host to run in, absolute or from `~/` on; else the home folder there.
    pub(super) cwd: Option<String>,
    /// `run`: the whole standard input of the command; none without it.
    pub(super) stdin: Option<String>,
    /// `upload`, `download`: file on this machine: a full path, one from `~/` on, or one relative to the working folder.
    pub(super) path: Option<String>,
    /// `upload`, `download`: file on the host, a full path or one from its home folder on.
    pub(super) remote_path: Option<String>,
    /// How long it may take, the connection included (default 120).
    #[schemars(range(min = 1, max = 86_400))]
    pub(super) timeout_seconds: Option<u64>,
}
