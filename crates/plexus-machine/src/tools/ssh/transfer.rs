//! File copies to and from a host.
//!
//! On both sides a file is written to a temporary name and renamed when it is complete, so that a partial file is
//! never visible. A copy resumes after a lost connection. At the end the file sizes are compared, on the host with
//! the size on its disk; ssh itself protects the data in transit.

mod download;
mod upload;

use std::time::Duration;

use plexus_kit::Stage;
use plexus_proto::{ErrorCode, SessionId};
use plexus_tools::{CallError, Progress, ToolContext};
use tokio::time::Instant;

use super::pool::{Lease, Pool};
use super::remote::NOTICING;
use super::sftp::{Sftp, SftpError};
use super::target::Target;
use super::wrong;

pub(super) use download::download;
pub(super) use upload::upload;

/// The maximum number of resumptions after a lost connection.
const RESUMED: u32 = 5;
/// The pause before a resumption, doubled each time.
const PAUSE: Duration = Duration::from_millis(200);
/// The timeout for removing the temporary file of a failed copy from a host.
const TIDYING: Duration = Duration::from_secs(30);
const MAX_PATH: usize = 4096;
const TOLD: Duration = Duration::from_millis(500);

/// The session and the target of a copy.
#[derive(Clone)]
pub(super) struct CopyRoute {
    pub(super) pool: Pool,
    pub(super) session: SessionId,
    pub(super) target: Target,
}

/// A copy that can continue where the previous attempt ended.
trait Attempt: Send {
    fn attempt(&mut self, sftp: &mut Sftp) -> impl Future<Output = Result<(), Failed>> + Send;
}

/// The reason an attempt failed.
enum Failed {
    /// The connection was lost; the copy can continue over another one.
    Lost,
    For(CallError),
}

impl From<CallError> for Failed {
    fn from(error: CallError) -> Self {
        Self::For(error)
    }
}

impl CopyRoute {
    /// Repeats attempts until one completes, over a new connection whenever one was lost.
    async fn through(&self, copy: &mut impl Attempt) -> Result<u32, CallError> {
        let mut resumed = 0;
        let mut pause = PAUSE;
        loop {
            let failed = match self.begin().await {
                Ok((mut sftp, lease)) => {
                    let failed = copy.attempt(&mut sftp).await;
                    drop((sftp, lease));
                    failed.err()
                }
                // Wait only for a host that was reached before.
                Err(Failed::For(error)) if resumed > 0 && error.code == ErrorCode::Unavailable => {
                    Some(Failed::Lost)
                }
                Err(failed) => Some(failed),
            };
            match failed {
                None => return Ok(resumed),
                Some(Failed::For(error)) => return Err(error),
                Some(Failed::Lost) if resumed == RESUMED => return Err(self.given_up()),
                Some(Failed::Lost) => resumed += 1,
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    async fn begin(&self) -> Result<(Sftp, Lease), Failed> {
        let lease = self.pool.lease(self.session, &self.target).await?;
        match Sftp::begin(self.pool.client().sftp(&self.target, lease.socket())).await {
            Ok(sftp) => Ok((sftp, lease)),
            Err(SftpError::Lost) if lease.is_gone(NOTICING).await => Err(Failed::Lost),
            Err(_) => {
                let message = format!("{} does not support SFTP, or accepts no more sessions", self.target);
                let error = CallError::new(ErrorCode::ToolFailed, message).hint(
                    "Nothing was copied. Action \"run\" can write text from `stdin` to a file: cat >file.",
                );
                Err(Failed::For(error.before_it_ran()))
            }
        }
    }

    fn given_up(&self) -> CallError {
        let message = format!("the connection to {} was lost too often, and the copy failed", self.target);
        CallError::new(ErrorCode::Unavailable, message)
            .hint("The target is unchanged, unless the copy completed at that very moment. Try again later.")
    }

    /// Converts the error of a request about a file on the host.
    fn failed(&self, path: &str, error: SftpError) -> Failed {
        let code = match &error {
            SftpError::Lost => return Failed::Lost,
            error if error.is_not_found() => ErrorCode::NotFound,
            error if error.is_forbidden() => ErrorCode::Forbidden,
            _ => ErrorCode::ToolFailed,
        };
        let message = format!("{}:{path}: {error}", self.target.host);
        Failed::For(
            CallError::new(code, message)
                .hint("The target is unchanged. Action \"run\" with `ls -la` lists the folder."),
        )
    }

    fn changed(&self, what: &str) -> Failed {
        Failed::For(
            CallError::new(ErrorCode::Conflict, format!("{what} changed while it was copied"))
                .hint("The target is unchanged. Try again when no program writes to the file."),
        )
    }
}

/// Converts the path of a remote file for SFTP; relative paths are resolved against the home folder.
fn remote_path(given: &str) -> Result<String, CallError> {
    let path = given.strip_prefix("~/").unwrap_or(given);
    let is_file = !path.is_empty() && path.len() <= MAX_PATH && !path.contains('\0') && !path.ends_with('/');
    match is_file && !matches!(path.rsplit('/').next(), Some("." | ".." | "~")) {
        true => Ok(path.to_owned()),
        false => Err(wrong("remote_path", "expected the path of a file, including its name")),
    }
}

/// The temporary file of a copy on a host. Dropping it removes the file, over a new connection if necessary.
struct Leftover {
    way: CopyRoute,
    path: Option<String>,
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let Some(path) = self.path.take() else { return };
        let way = self.way.clone();
        let supervisor = way.pool.supervisor().clone();
        supervisor.spawn(Stage::Work, "removing a partial remote copy", async move {
            let stopping = way.pool.supervisor().stopping(Stage::Work);
            let removing = async {
                let mut pause = PAUSE;
                while !way.remove(&path).await {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
            };
            let removed = tokio::select! {
                removed = tokio::time::timeout(TIDYING, removing) => removed.is_ok(),
                () = stopping.cancelled() => false,
            };
            if !removed {
                tracing::warn!(host = %way.target.host, path, "a partial copy remains on a host");
            }
        });
    }
}

impl CopyRoute {
    /// Removes a file. Returns whether it no longer exists.
    async fn remove(&self, path: &str) -> bool {
        let Ok((mut sftp, _lease)) = self.begin().await else { return false };
        match sftp.remove(path).await {
            Ok(()) => true,
            Err(error) => error.is_not_found(),
        }
    }
}

/// Reports the progress of a copy at intervals.
struct ProgressReporter<'t> {
    context: &'t ToolContext,
    total: u64,
    at: Option<Instant>,
}

impl<'t> ProgressReporter<'t> {
    fn new(context: &'t ToolContext, total: u64) -> Self {
        Self { context, total, at: None }
    }

    fn tell(&mut self, done: u64) {
        if self.at.is_some_and(|at| at.elapsed() < TOLD) {
            return;
        }
        self.at = Some(Instant::now());
        // A count of bytes is exact up to 2^53.
        #[expect(clippy::cast_precision_loss)]
        let progress = Progress { done: done as f64, total: Some(self.total as f64), message: None };
        self.context.progress(progress);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_path_must_name_a_file() {
        for (given, path) in
            [("/tmp/x", "/tmp/x"), ("~/x", "x"), ("x", "x"), ("a b/'c", "a b/'c"), ("-x", "-x")]
        {
            assert_eq!(remote_path(given).unwrap(), path);
        }
        for bad in ["", "~/", "/", "/tmp/", "..", "/tmp/..", "~", "a\0b"] {
            assert!(remote_path(bad).is_err(), "{bad:?}");
        }
    }
}
