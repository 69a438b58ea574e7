//! Copies of files, to a host and from one.
//!
//! On both sides a file is written beside its place and put there when it is complete, so that nobody ever finds a half one,
//! whatever breaks. A connection that is lost is made again, and the copy goes on where it was. What is compared at the end
//! is the size, on the host that which it has on its disk: what is under way ssh itself protects.

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

/// How often a copy goes on after the connection was lost.
const RESUMED: u32 = 5;
/// Before it goes on; doubled each time.
const PAUSE: Duration = Duration::from_millis(200);
/// To remove what a copy that failed has left on a host.
const TIDYING: Duration = Duration::from_secs(30);
const MAX_PATH: usize = 4096;
const TOLD: Duration = Duration::from_millis(500);

/// Between which machines, for whom.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) pool: Pool,
    pub(super) session: SessionId,
    pub(super) target: Target,
}

/// A copy that goes on where the attempt before has ended.
trait Attempt: Send {
    fn attempt(&mut self, sftp: &mut Sftp) -> impl Future<Output = Result<(), Failed>> + Send;
}

/// Why one attempt did not get to its end.
enum Failed {
    /// It may go on with another connection.
    Lost,
    For(CallError),
}

impl From<CallError> for Failed {
    fn from(error: CallError) -> Self {
        Self::For(error)
    }
}

impl Way {
    /// Attempts until one gets to its end, with a connection that is made anew where it was lost.
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
                // Only a host that was reached once is waited for.
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
                let message = format!(
                    "{} does not serve files: it has no SFTP, or takes no more sessions",
                    self.target
                );
                let error = CallError::new(ErrorCode::ToolFailed, message)
                    .hint("Nothing was copied. Action \"run\" can write a text that is given as `stdin`: cat >file.");
                Err(Failed::For(error.before_it_ran()))
            }
        }
    }

    fn given_up(&self) -> CallError {
        let message = format!("the connection to {} was lost, and the copy was given up", self.target);
        CallError::new(ErrorCode::Unavailable, message)
            .hint("What was there before is unchanged, unless the copy was complete in that very moment. Try again later.")
    }

    /// What a request about a file on the host failed with.
    fn failed(&self, path: &str, error: SftpError) -> Failed {
        let code = match &error {
            SftpError::Lost => return Failed::Lost,
            error if error.is_not_found() => ErrorCode::NotFound,
            error if error.is_forbidden() => ErrorCode::Forbidden,
            _ => ErrorCode::ToolFailed,
        };
        let message = format!("{}:{path}: {error}", self.target.host);
        Failed::For(
            CallError::new(code, message).hint(
                "What was there before is unchanged. Action \"run\" with `ls -la` shows what there is.",
            ),
        )
    }

    fn changed(&self, what: &str) -> Failed {
        Failed::For(
            CallError::new(ErrorCode::Conflict, format!("{what} was changed while it was copied"))
                .hint("What was at the other side before is unchanged. Try again when nobody writes to it."),
        )
    }
}

/// A file on a host, as SFTP takes it: relative ones begin in the home folder.
fn remote_path(given: &str) -> Result<String, CallError> {
    let path = given.strip_prefix("~/").unwrap_or(given);
    let is_file = !path.is_empty() && path.len() <= MAX_PATH && !path.contains('\0') && !path.ends_with('/');
    match is_file && !matches!(path.rsplit('/').next(), Some("." | ".." | "~")) {
        true => Ok(path.to_owned()),
        false => Err(wrong("remote_path", "expected the path of a file, with its name")),
    }
}

/// What a copy leaves on a host when it does not get to its end: removed, with another connection if need be.
struct Leftover {
    way: Way,
    path: Option<String>,
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let Some(path) = self.path.take() else { return };
        let way = self.way.clone();
        let supervisor = way.pool.supervisor().clone();
        supervisor.spawn(Stage::Work, "rest of a copy on a host", async move {
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
                tracing::warn!(host = %way.target.host, path, "the rest of a copy is left on a host");
            }
        });
    }
}

impl Way {
    /// Whether it is not there any more.
    async fn remove(&self, path: &str) -> bool {
        let Ok((mut sftp, _lease)) = self.begin().await else { return false };
        match sftp.remove(path).await {
            Ok(()) => true,
            Err(error) => error.is_not_found(),
        }
    }
}

/// Tells how far a copy has come, now and then.
struct Told<'t> {
    context: &'t ToolContext,
    total: u64,
    at: Option<Instant>,
}

impl<'t> Told<'t> {
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
    fn a_file_on_a_host_has_a_name() {
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
