//! Ends the child processes of a hub that was killed.
//!
//! A killed hub cannot end its child processes. The kernel closes their standard input, on which well-behaved
//! processes exit, but many do not. A parent-death signal would need unsafe code between fork and exec, and
//! is tied to the thread that started the process, not to the hub. Therefore each process has a guardian: a
//! shell that waits until its own standard input is closed, which happens only when the hub is gone, and then
//! kills the process group.

use std::process::Stdio;

use tokio::process::{Child, Command};

/// Gives the group some time to exit on its own.
const SCRIPT: &str = r#"read -r _; sleep 2; kill -s KILL -- "-$1""#;

/// Dismissed on drop.
#[derive(Debug)]
pub struct Guardian(Child);

impl Guardian {
    /// `None` if there is no shell; then the process of a killed hub may survive it.
    #[must_use]
    pub fn of(group: u32) -> Option<Self> {
        let spawned = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "plexus-guardian", &group.to_string()])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // The guardian must not receive signals that the terminal sends to the hub.
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        spawned.inspect_err(|error| tracing::debug!(%error, "no guardian for a process")).ok().map(Self)
    }

    /// Dismisses the guardian, and returns once it is gone.
    pub async fn dismiss(mut self) {
        // Fails if it has already exited.
        let _ = self.0.kill().await;
    }
}

#[cfg(test)]
mod tests;
