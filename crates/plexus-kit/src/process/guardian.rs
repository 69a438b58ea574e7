//! Ends the processes of a hub that was killed.
//!
//! A hub that is killed cannot end what it has started. The kernel then closes the standard input of a process, and one
//! that does as it should ends; many do not. A death signal would reach them, but setting one takes unsafe code
//! between fork and exec, and it follows the thread that started the process and not the hub. So each process has a
//! guardian: a shell that waits for its own standard input to be closed, which happens only when the hub is gone,
//! and then kills the process group.

use std::process::Stdio;

use tokio::process::{Child, Command};

/// They get some time to end by themselves.
const SCRIPT: &str = r#"read -r _; sleep 2; kill -s KILL -- "-$1""#;

/// Dropping it calls the guardian off.
#[derive(Debug)]
pub struct Guardian(Child);

impl Guardian {
    /// None where there is no shell: then a process of a killed hub ends by itself or not at all.
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
            // What a terminal sends to the hub is not for it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        spawned.inspect_err(|error| tracing::debug!(%error, "no guardian for a process")).ok().map(Self)
    }

    /// The same as dropping it, and nothing of it is left when this returns.
    pub async fn call_off(mut self) {
        // It fails when it is gone already.
        let _ = self.0.kill().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("1000").process_group(0).kill_on_drop(true).spawn().unwrap()
    }

    #[tokio::test]
    async fn a_group_is_killed_when_the_hub_is_gone() {
        let mut sleeper = sleeper();
        let mut guardian = Guardian::of(sleeper.id().unwrap()).unwrap();
        // What the kernel does when the hub dies.
        drop(guardian.0.stdin.take());
        let ended = tokio::time::timeout(Duration::from_secs(20), sleeper.wait()).await;
        assert_eq!(ended.expect("killed in time").unwrap().to_string(), "signal: 9 (SIGKILL)");
        assert!(guardian.0.wait().await.unwrap().success());
    }

    #[tokio::test]
    async fn a_guardian_that_is_called_off_does_nothing() {
        let mut sleeper = sleeper();
        Guardian::of(sleeper.id().unwrap()).unwrap().call_off().await;
        assert!(sleeper.try_wait().unwrap().is_none(), "still there");
    }
}
