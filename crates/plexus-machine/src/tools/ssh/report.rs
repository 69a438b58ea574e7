//! The output of `ssh_exec`: structured data for programs, and its text form for models.

use schemars::JsonSchema;
use serde::Serialize;

use crate::tools::output::{Excerpt, both_streams, end_of_command, on_a_new_line};

/// The output of any action; fields that do not apply are omitted.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<CommandEnd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stdout: Option<Excerpt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stderr: Option<Excerpt>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) copied: Option<Copied>,
    /// `list`: the connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) connections: Option<Vec<Connection>>,
    /// `close`: the number of closed connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) closed: Option<usize>,
}

/// The end of a command.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CommandEnd {
    /// Null if it was killed before it could report.
    pub(super) exit_code: Option<i32>,
    /// The signal that ended it, such as `TERM`. A shell reports it as an exit code above 128, and so may any program.
    pub(super) signal: Option<String>,
    /// It was killed on the host because it timed out.
    pub(super) timed_out: bool,
    pub(super) duration_ms: u64,
    /// The command has ended, but processes that it started are still running on the host.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) left_running: bool,
}

/// A copied file.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Copied {
    /// File on this machine.
    pub(super) path: String,
    /// File on the host.
    pub(super) remote_path: String,
    /// Size of the file.
    pub(super) file_bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub(super) sha256: String,
    /// How often the connection was lost and the copy was resumed.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) resumed: u32,
}

/// An open connection.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Connection {
    pub(super) host: String,
    pub(super) user: Option<String>,
    pub(super) port: Option<u16>,
    /// Number of commands and copies that use it.
    pub(super) in_use: usize,
    /// Seconds since its last use.
    pub(super) idle_seconds: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl CommandEnd {
    /// Signals that end programs have the same numbers on all systems.
    pub(super) fn signal_of(exit_code: Option<i32>) -> Option<String> {
        let name = match exit_code? - 128 {
            1 => "HUP",
            2 => "INT",
            3 => "QUIT",
            4 => "ILL",
            6 => "ABRT",
            8 => "FPE",
            9 => "KILL",
            11 => "SEGV",
            13 => "PIPE",
            14 => "ALRM",
            15 => "TERM",
            _ => return None,
        };
        Some(name.to_owned())
    }

    fn words(&self) -> String {
        let ended = end_of_command(self.timed_out, self.signal.as_deref(), self.exit_code, self.duration_ms);
        let mut words = ended.unwrap_or_else(|| {
            format!("killed on the host after {:.1} s", self.duration_ms as f64 / 1_000.0)
        });
        if self.left_running {
            words.push_str("; processes that it started are still running there");
        }
        words
    }
}

impl Output {
    /// The text form for models: the output first, the state last.
    pub(super) fn text(&self) -> String {
        let host = self.host.as_deref().unwrap_or_default();
        let mut text = both_streams(
            self.stdout.as_ref().map(|stdout| stdout.text.as_str()),
            self.stderr.as_ref().map(|stderr| stderr.text.as_str()),
        );
        if let Some(end) = &self.end {
            on_a_new_line(&mut text);
            text.push_str(&format!("[{host}: {}]", end.words()));
        }
        if let Some(copied) = &self.copied {
            let Copied { path, remote_path, file_bytes, sha256, .. } = copied;
            text.push_str(&format!("{path} and {host}:{remote_path}: {file_bytes} bytes, sha256 {sha256}"));
        }
        for connection in self.connections.iter().flatten() {
            let user = connection.user.as_ref().map_or_else(String::new, |user| format!("{user}@"));
            let port = connection.port.map_or_else(String::new, |port| format!(" port {port}"));
            let Connection { host, in_use, idle_seconds, .. } = connection;
            text.push_str(&format!("{user}{host}{port}: {in_use} in use, used {idle_seconds} s ago\n"));
        }
        if self.connections.as_ref().is_some_and(Vec::is_empty) {
            text.push_str("This session has no open connections.");
        }
        if let Some(closed) = self.closed {
            text.push_str(&format!("{closed} connections closed."));
        }
        text
    }
}
