//! What `ssh_exec` answers: data for programs, and the same as text for models.

use schemars::JsonSchema;
use serde::Serialize;

use crate::tools::output::Excerpt;

/// The answer to any action; what does not belong to it is left out.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// Where it was done.
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
    /// Of `list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) connections: Option<Vec<Connection>>,
    /// Of `close`: how many were closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) closed: Option<usize>,
}

/// How a command ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CommandEnd {
    /// None where it was killed before it could be told.
    pub(super) exit_code: Option<i32>,
    /// That ended it, such as `TERM`. A shell says so with an exit code above 128, and so may any program.
    pub(super) signal: Option<String>,
    /// It was ended on the host because its time was up.
    pub(super) timed_out: bool,
    pub(super) duration_ms: u64,
    /// It has ended, and something that it started goes on there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) left_running: bool,
}

/// A file that was copied.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Copied {
    /// File on this machine.
    pub(super) path: String,
    /// File on the host.
    pub(super) remote_path: String,
    /// Size of the file, on both sides.
    pub(super) file_bytes: u64,
    /// Of its content, in hexadecimal.
    pub(super) sha256: String,
    /// How often the connection was lost and the copy went on where it was.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) resumed: u32,
}

/// A connection that is open.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Connection {
    pub(super) host: String,
    pub(super) user: Option<String>,
    pub(super) port: Option<u16>,
    /// Commands and copies that use it now.
    pub(super) in_use: usize,
    /// Since it was last used.
    pub(super) idle_seconds: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl CommandEnd {
    /// Those that end programs have the same numbers everywhere.
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
        let seconds = self.duration_ms as f64 / 1_000.0;
        let mut words = match (self.timed_out, &self.signal, self.exit_code) {
            (true, ..) => format!("ended because its time was up, after {seconds:.1} s"),
            (false, Some(signal), _) => format!("ended by SIG{signal} after {seconds:.1} s"),
            (false, None, Some(code)) => format!("exit code {code} after {seconds:.1} s"),
            (false, None, None) => format!("killed on the host after {seconds:.1} s"),
        };
        if self.left_running {
            words.push_str("; something that it started goes on there");
        }
        words
    }
}

impl Output {
    /// The same for a model: what was written first, and how it ended last.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let host = self.host.as_deref().unwrap_or_default();
        if let Some(stdout) = &self.stdout {
            text.push_str(&stdout.text);
        }
        if let Some(stderr) = self.stderr.as_ref().filter(|stderr| stderr.bytes > 0) {
            on_a_new_line(&mut text);
            text.push_str("[stderr]\n");
            text.push_str(&stderr.text);
        }
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
            text.push_str(&format!("{closed} closed."));
        }
        text
    }
}

fn on_a_new_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}
