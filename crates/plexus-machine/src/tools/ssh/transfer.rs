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
use super::remote::LOSS_DETECTION_TIME;
use super::sftp::{Sftp, SftpError};
use super::target::Target;
use super::wrong;

pub(super) use download::download;
pub(super) use upload::upload;

/// The maximum number of resumptions after a lost connection.
const MAX_RESUMPTIONS: u32 = 5;
/// The pause before a resumption, doubled each time.
const PAUSE: Duration = Duration::from_millis(200);
/// The timeout for removing the temporary file of a failed copy from a host.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_PATH: usize = 4096;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// The session and the target of a copy.
#[derive(Clone)]
pub(super) struct CopyRoute {
    pub(super) pool: Pool,
    pub(super) session: SessionId,
    pub(super) target: Target,
}

/// A copy that can continue where the previous attempt ended.
trait Attempt: Send {
    fn attempt(&mut self, sftp: &mut Sftp) -> impl Future<Output = Result<(), AttemptError>> + Send;
}

/// The reason an attempt failed.
enum AttemptError {
    /// The connection was lost; the copy can continue over another one.
    Lost,
    For(CallError),
}

impl From<CallError> for AttemptError {
    fn from(error: CallError) -> Self {
        Self::For(error)
    }
}

impl CopyRoute {
    /// Repeats attempts until one completes, over a new connection whenever one was lost.
    async fn run_attempts(&self, copy: &mut impl Attempt) -> Result<u32, CallError> {
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
                Err(AttemptError::For(error)) if resumed > 0 && error.code == ErrorCode::Unavailable => {
                    Some(AttemptError::Lost)
                }
                Err(failed) => Some(failed),
            };
            match failed {
                None => return Ok(resumed),
                Some(AttemptError::For(error)) => return Err(error),
                Some(AttemptError::Lost) if resumed == MAX_RESUMPTIONS => return Err(self.gave_up_error()),
                Some(AttemptError::Lost) => resumed += 1,
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    async fn begin(&self) -> Result<(Sftp, Lease), AttemptError> {
        let lease = self.pool.lease(self.session, &self.target).await?;
        match Sftp::begin(self.pool.client().sftp_command(&self.target, lease.socket())).await {
            Ok(sftp) => Ok((sftp, lease)),
            Err(SftpError::Lost) if lease.is_lost(LOSS_DETECTION_TIME).await => Err(AttemptError::Lost),
            Err(_) => {
                let message = format!("{} does not support SFTP, or accepts no more sessions", self.target);
                let error = CallError::new(ErrorCode::ToolFailed, message).hint(
                    "Nothing was copied. Action \"run\" can write text from `stdin` to a file: cat >file.",
                );
                Err(AttemptError::For(error.before_it_ran()))
            }
        }
    }

    fn gave_up_error(&self) -> CallError {
        let message = format!("the connection to {} was lost too often, and the copy failed", self.target);
        CallError::new(ErrorCode::Unavailable, message)
            .hint("The target is unchanged, unless the copy completed at that very moment. Try again later.")
    }

    /// Converts the error of a request about a file on the host.
    fn request_error(&self, path: &str, error: SftpError) -> AttemptError {
        let code = match &error {
            SftpError::Lost => return AttemptError::Lost,
            error if error.is_not_found() => ErrorCode::NotFound,
            error if error.is_forbidden() => ErrorCode::Forbidden,
            _ => ErrorCode::ToolFailed,
        };
        let message = format!("{}:{path}: {error}", self.target.host);
        AttemptError::For(
            CallError::new(code, message)
                .hint("The target is unchanged. Action \"run\" with `ls -la` lists the folder."),
        )
    }

    fn file_changed_error(&self, what: &str) -> AttemptError {
        AttemptError::For(
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
struct PartialRemoteFile {
    route: CopyRoute,
    path: Option<String>,
}

impl Drop for PartialRemoteFile {
    fn drop(&mut self) {
        let Some(path) = self.path.take() else { return };
        let route = self.route.clone();
        let supervisor = route.pool.supervisor().clone();
        supervisor.spawn(Stage::Work, "removing a partial remote copy", async move {
            let stopping = route.pool.supervisor().stopping(Stage::Work);
            let removing = async {
                let mut pause = PAUSE;
                while !route.remove(&path).await {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
            };
            let removed = tokio::select! {
                removed = tokio::time::timeout(CLEANUP_TIMEOUT, removing) => removed.is_ok(),
                () = stopping.cancelled() => false,
            };
            if !removed {
                tracing::warn!(host = %route.target.host, path, "a partial copy remains on a host");
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

    fn report(&mut self, done: u64) {
        if self.at.is_some_and(|at| at.elapsed() < PROGRESS_INTERVAL) {
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
mod tests;
