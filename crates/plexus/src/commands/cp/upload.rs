//! Uploads one file to a node.

use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fs_err as fs;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use plexus_proto::ErrorCode;

use super::report::CopiedFile;
use super::transfer::{self, CHUNK, Entry, EntryKind, MIN_CHUNK, TransferRequest};
use super::{CopyOptions, PARTS, local};
use crate::failure::{Exit, Failure};
use crate::output::{Bar, Output};
use crate::remote::{Remote, ToolRefusal};

/// Attempts for a file that arrived damaged, or that the node refused.
const ATTEMPTS: u32 = 3;

/// The local file and its properties.
struct Source {
    file: Arc<std::fs::File>,
    identity: [i64; 6],
    size: u64,
    sha256: String,
    mode: u32,
    modified: String,
}

/// Copies the file `from` to exactly the path `to`; `there` is the existing entry at this path.
pub(super) async fn upload_file(
    remote: &Remote,
    from: &Path,
    to: &str,
    there: &Entry,
    options: CopyOptions,
    bar: &Bar,
    out: &Output,
) -> anyhow::Result<CopiedFile> {
    let file = fs::File::open(from)?.into_file();
    let metadata = file.metadata()?;
    let source = Source {
        identity: local::identity(&metadata),
        size: metadata.len(),
        sha256: local::hash(from).await?,
        mode: metadata.mode() & 0o777,
        modified: local::modified(&metadata),
        file: Arc::new(file),
    };
    let shown = format!("{}:{to}", remote.node());
    let mut copied = CopiedFile {
        from: from.display().to_string(),
        to: shown.clone(),
        bytes: source.size,
        sha256: source.sha256.clone(),
        resumed: 0,
        unchanged: false,
    };
    let mut replace = options.force;
    match there.kind {
        EntryKind::Nothing => {}
        EntryKind::File
            if there.size == source.size && is_same(remote, to, there, &source.sha256).await? =>
        {
            bar.advance(source.size);
            copied.unchanged = true;
            return Ok(copied);
        }
        EntryKind::File if replace => {}
        EntryKind::File => replace = super::tree::may_replace(&shown, bar, out)?,
        _ => {
            let message = format!("{shown} exists and is not a file");
            return Err(Failure::new(Exit::Failed, message)
                .hint("nothing was changed; choose another path")
                .into());
        }
    }
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match attempt(remote, &source, to, replace, bar, &mut copied).await? {
            Ok(()) => return Ok(copied),
            Err(ToolRefusal(text)) => last = Some(text),
        }
    }
    Err(Failure::new(Exit::Failed, format!("{shown}: {}", last.unwrap_or_default()))
        .hint("the target was not changed; run the command again")
        .into())
}

async fn is_same(remote: &Remote, to: &str, there: &Entry, sha256: &str) -> anyhow::Result<bool> {
    Ok(transfer::hash(remote, to, &there.identity).await?.as_deref() == Some(sha256))
}

/// Makes one attempt. The inner error may be retried.
async fn attempt(
    remote: &Remote,
    source: &Source,
    to: &str,
    replace: bool,
    bar: &Bar,
    copied: &mut CopiedFile,
) -> anyhow::Result<Result<(), ToolRefusal>> {
    let request = TransferRequest {
        path: to,
        size: Some(source.size),
        sha256: Some(&source.sha256),
        mode: Some(source.mode),
        modified: Some(&source.modified),
        replace: Some(replace),
        ..TransferRequest::default()
    };
    let reply = transfer::call(remote, TransferRequest { action: "begin", ..request }).await?;
    if reply.exists {
        return Err(local::already_exists(&copied.to));
    }
    let received = reply.received.unwrap_or(0).min(source.size);
    copied.resumed = copied.resumed.max(received);
    let progress = AtomicU64::new(received);
    bar.advance(received);
    let starts = (received..source.size).step_by(usize::try_from(CHUNK).unwrap_or(1 << 20));
    let parts = stream::iter(starts).map(|offset| {
        let progress = &progress;
        async move {
            let length = CHUNK.min(source.size - offset);
            part(remote, source, to, offset, length).await?;
            progress.fetch_add(length, Ordering::Relaxed);
            bar.advance(length);
            Ok::<(), SendError>(())
        }
    });
    let sent = parts.buffered(PARTS).try_collect::<()>().await;
    let retry = |text: String| {
        bar.retract(progress.load(Ordering::Relaxed));
        Ok(Err(ToolRefusal(text)))
    };
    match sent {
        Ok(()) => {}
        Err(SendError::Refused(text)) => return retry(text),
        Err(SendError::Failed(error)) => return Err(error),
    }
    if local::identity(&source.file.metadata()?) != source.identity {
        transfer::call(remote, TransferRequest { action: "abort", ..request }).await?;
        return Err(changed(&copied.from));
    }
    loop {
        let reply = match remote
            .try_call(transfer::TOOL, &TransferRequest { action: "finish", ..request }, None)
            .await?
        {
            Ok(reply) => reply,
            Err(ToolRefusal(text)) => return retry(text),
        };
        let reply: transfer::TransferReply = reply;
        match reply {
            reply if reply.done => return Ok(Ok(())),
            reply if reply.exists => return Err(local::already_exists(&copied.to)),
            reply if reply.damaged => {
                return retry("the received content differs from the source".to_owned());
            }
            _ => {}
        }
    }
}

/// Why sending the parts stopped.
enum SendError {
    Refused(String),
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for SendError {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// Sends one part, in smaller requests if the hub refuses large ones.
async fn part(remote: &Remote, source: &Source, to: &str, offset: u64, length: u64) -> Result<(), SendError> {
    let (mut offset, end, mut step) = (offset, offset + length, length.max(1));
    while offset < end {
        let length = step.min(end - offset);
        let file = source.file.clone();
        let read = local::blocking(move || {
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            match file.read_exact_at(&mut bytes, offset) {
                Ok(()) => Ok(Some(STANDARD.encode(bytes))),
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
                Err(error) => Err(error.into()),
            }
        });
        let Some(data) = read.await? else { return Err(SendError::Failed(changed("the file"))) };
        let request = TransferRequest {
            action: "write",
            path: to,
            size: Some(source.size),
            sha256: Some(&source.sha256),
            offset: Some(offset),
            data: Some(&data),
            ..TransferRequest::default()
        };
        match remote.try_call::<_, transfer::TransferReply>(transfer::TOOL, &request, None).await {
            Ok(Ok(_)) => offset += length,
            Ok(Err(ToolRefusal(text))) => return Err(SendError::Refused(text)),
            Err(error) if is_too_large(&error) && length > MIN_CHUNK => step = (length / 2).max(MIN_CHUNK),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(super) fn is_too_large(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.code == Some(ErrorCode::TooLarge))
}

pub(super) fn changed(path: &str) -> anyhow::Error {
    Failure::new(Exit::Failed, format!("{path} changed during the copy"))
        .hint("the target was not changed; copy the file again when nothing writes to it")
        .into()
}
