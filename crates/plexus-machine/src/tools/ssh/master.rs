//! One connection to a host: an ssh master process that shares it through a socket.
//!
//! It ends when it is no longer needed, when the node stops, and, through its guardian, when the node is killed. Its
//! socket is removed with it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use plexus_kit::process::{Group, Guardian, Signal};
use plexus_kit::{Stage, Supervisor};
use plexus_proto::ErrorCode;
use plexus_tools::CallError;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::client::Client;
use super::refusal::Transcript;
use super::target::Target;

/// The timeout for a connection including all jump hosts; ssh itself gives up on an unresponsive host after 15
/// seconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval at which the socket is checked for; ssh provides no other notification.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long the process may take to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to read the last output of an ended process.
const OUTPUT_GRACE: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(super) struct Master {
    socket: String,
    lost: CancellationToken,
    close_requested: CancellationToken,
    _dropped: DropGuard,
}

impl Master {
    pub(super) async fn connect(
        client: &Client,
        target: &Target,
        supervisor: &Supervisor,
    ) -> Result<Self, CallError> {
        // The name cannot be guessed, and the folder is readable only by its owner.
        let socket = format!("{:016x}", rand::random::<u64>());
        let mut command = client.connect_command(target, &socket).await.map_err(ssh_start_error)?;
        let mut child = command.spawn().map_err(ssh_start_error)?;
        let (Some(pid), Some(mut stderr)) = (child.id(), child.stderr.take()) else {
            return Err(CallError::new(ErrorCode::Internal, "ssh has no standard streams").before_it_ran());
        };
        let running =
            Running { group: Group::of(pid), guardian: Guardian::of(pid), socket: client.socket(&socket) };
        let connected = wait_connected(&mut child, &mut stderr, &running.socket, target);
        match tokio::time::timeout(CONNECT_TIMEOUT, connected).await {
            Ok(connected) => connected?,
            Err(_) => {
                let message = format!("{target} was not connected within {} s", CONNECT_TIMEOUT.as_secs());
                return Err(CallError::new(ErrorCode::Unavailable, message)
                    .hint("Nothing was run. Try again later, or check whether the host can be reached from this machine.")
                    .before_it_ran());
            }
        }
        let (lost, close_requested) = (CancellationToken::new(), CancellationToken::new());
        let dropped = close_requested.clone().drop_guard();
        let master =
            Self { socket, lost: lost.clone(), close_requested: close_requested.clone(), _dropped: dropped };
        // In a stage in which all calls have ended.
        let stopping = supervisor.stopping(Stage::Storage);
        supervisor.spawn(Stage::Storage, "ssh connection", async move {
            let _gone = lost.drop_guard();
            tokio::select! {
                () = drain_stderr(&mut child, &mut stderr) => {}
                () = async { tokio::select! { () = close_requested.cancelled() => {}, () = stopping.cancelled() => {} } } => {
                    running.group.signal(Signal::TERM);
                    let _ = tokio::time::timeout(END_TIMEOUT, drain_stderr(&mut child, &mut stderr)).await;
                }
            }
            running.end().await;
        });
        Ok(master)
    }

    pub(super) fn socket(&self) -> &str {
        &self.socket
    }

    /// Ends the connection even if it is in use; dropping it does the same.
    pub(super) fn end(&self) {
        self.close_requested.cancel();
    }

    pub(super) fn lost_token(&self) -> &CancellationToken {
        &self.lost
    }
}

/// The process and its resources. Dropping it kills everything.
struct Running {
    group: Group,
    guardian: Option<Guardian>,
    socket: PathBuf,
}

impl Running {
    async fn end(self) {
        let Self { group, guardian, socket } = self;
        drop(group);
        if let Some(guardian) = guardian {
            guardian.dismiss().await;
        }
        // A process that ended by itself has removed its socket.
        let _ = fs_err::remove_file(socket);
    }
}

/// Waits until the connection can be used.
async fn wait_connected(
    child: &mut Child,
    stderr: &mut ChildStderr,
    socket: &std::path::Path,
    target: &Target,
) -> Result<(), CallError> {
    let mut transcript = Transcript::default();
    let mut look = tokio::time::interval(POLL_INTERVAL);
    let mut block = vec![0; 8 << 10];
    let mut open = true;
    loop {
        tokio::select! {
            biased;
            read = stderr.read(&mut block), if open => match read {
                Ok(read @ 1..) => transcript.push(&block[..read]),
                _ => open = false,
            },
            _ = child.wait() => break,
            _ = look.tick() => if socket.exists() {
                return Ok(());
            },
        }
    }
    // The ssh of a jump host may still hold the pipe for a moment.
    while open {
        match tokio::time::timeout(OUTPUT_GRACE, stderr.read(&mut block)).await {
            Ok(Ok(read @ 1..)) => transcript.push(&block[..read]),
            _ => open = false,
        }
    }
    Err(transcript.refusal(target))
}

/// Reads and discards its output until it ends.
async fn drain_stderr(child: &mut Child, stderr: &mut ChildStderr) {
    let mut block = vec![0; 8 << 10];
    let mut open = true;
    loop {
        tokio::select! {
            _ = child.wait() => return,
            read = stderr.read(&mut block), if open => open = matches!(read, Ok(1..)),
        }
    }
}

/// The error if ssh itself cannot be run.
pub(super) fn ssh_start_error(error: io::Error) -> CallError {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => {
            "Nothing was run. The owner of this machine can install the OpenSSH client (Debian: apt-get install \
             openssh-client)."
        }
        _ => "Nothing was run. Check the node's log and its folder.",
    };
    let message = format!("the program ssh cannot be run on this machine: {error}");
    CallError::new(ErrorCode::Unavailable, message).hint(hint).before_it_ran()
}
