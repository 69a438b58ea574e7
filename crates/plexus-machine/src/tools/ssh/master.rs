//! One connection to a host: a process of ssh that makes it, keeps it and lets others use it through a socket.
//!
//! It ends when it is no longer wanted, when the node stops, and, by its guardian, when the node is killed. Its socket goes
//! with it.

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

/// For a connection with all of its jumps; ssh itself gives up on a host that does not answer after 15 seconds.
const CONNECTING: Duration = Duration::from_secs(60);
/// How often it is looked whether the socket is there: ssh says it in no other way.
const LOOK: Duration = Duration::from_millis(10);
/// To end by itself.
const ENDING: Duration = Duration::from_secs(2);
/// For the last words of one that has ended.
const LAST_WORDS: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(super) struct Master {
    socket: String,
    gone: CancellationToken,
    unwanted: CancellationToken,
    _dropped: DropGuard,
}

impl Master {
    pub(super) async fn connect(
        client: &Client,
        target: &Target,
        supervisor: &Supervisor,
    ) -> Result<Self, CallError> {
        // Names that nobody can guess, in a folder that nobody else can read.
        let socket = format!("{:016x}", rand::random::<u64>());
        let mut command = client.connecting(target, &socket).await.map_err(unusable)?;
        let mut child = command.spawn().map_err(unusable)?;
        let (Some(pid), Some(mut stderr)) = (child.id(), child.stderr.take()) else {
            return Err(CallError::new(ErrorCode::Internal, "ssh has no standard streams").before_it_ran());
        };
        let running =
            Running { group: Group::of(pid), guardian: Guardian::of(pid), socket: client.socket(&socket) };
        let connected = connected(&mut child, &mut stderr, &running.socket, target);
        match tokio::time::timeout(CONNECTING, connected).await {
            Ok(connected) => connected?,
            Err(_) => {
                let message = format!("{target} was not connected within {} s", CONNECTING.as_secs());
                return Err(CallError::new(ErrorCode::Unavailable, message)
                    .hint("Nothing was run. Try again later, or look whether the host can be reached from this machine.")
                    .before_it_ran());
            }
        }
        let (gone, unwanted) = (CancellationToken::new(), CancellationToken::new());
        let dropped = unwanted.clone().drop_guard();
        let master = Self { socket, gone: gone.clone(), unwanted: unwanted.clone(), _dropped: dropped };
        // Calls are done by then.
        let stopping = supervisor.stopping(Stage::Storage);
        supervisor.spawn(Stage::Storage, "ssh connection", async move {
            let _gone = gone.drop_guard();
            tokio::select! {
                () = watched(&mut child, &mut stderr) => {}
                () = async { tokio::select! { () = unwanted.cancelled() => {}, () = stopping.cancelled() => {} } } => {
                    running.group.signal(Signal::TERM);
                    let _ = tokio::time::timeout(ENDING, watched(&mut child, &mut stderr)).await;
                }
            }
            running.end().await;
        });
        Ok(master)
    }

    pub(super) fn socket(&self) -> &str {
        &self.socket
    }

    /// Ends it, whoever uses it; so does dropping it.
    pub(super) fn end(&self) {
        self.unwanted.cancel();
    }

    pub(super) fn gone(&self) -> &CancellationToken {
        &self.gone
    }
}

/// The process and what goes with it. Dropped, all of it is killed.
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
            guardian.call_off().await;
        }
        // One that ended by itself has removed it.
        let _ = fs_err::remove_file(socket);
    }
}

/// Waits until the connection can be used.
async fn connected(
    child: &mut Child,
    stderr: &mut ChildStderr,
    socket: &std::path::Path,
    target: &Target,
) -> Result<(), CallError> {
    let mut transcript = Transcript::default();
    let mut look = tokio::time::interval(LOOK);
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
    // A jump host's ssh may hold the other end for a moment.
    while open {
        match tokio::time::timeout(LAST_WORDS, stderr.read(&mut block)).await {
            Ok(Ok(read @ 1..)) => transcript.push(&block[..read]),
            _ => open = false,
        }
    }
    Err(transcript.refusal(target))
}

/// Reads what it says to nobody, until it ends.
async fn watched(child: &mut Child, stderr: &mut ChildStderr) {
    let mut block = vec![0; 8 << 10];
    let mut open = true;
    loop {
        tokio::select! {
            _ = child.wait() => return,
            read = stderr.read(&mut block), if open => open = matches!(read, Ok(1..)),
        }
    }
}

/// ssh itself cannot be run.
pub(super) fn unusable(error: io::Error) -> CallError {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => {
            "Nothing was run. The owner of this machine can install the OpenSSH client (Debian: apt-get install \
             openssh-client)."
        }
        _ => "Nothing was run. The node's log and its folder may say more.",
    };
    let message = format!("the program ssh cannot be run on this machine: {error}");
    CallError::new(ErrorCode::Unavailable, message).hint(hint).before_it_ran()
}
