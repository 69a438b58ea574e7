//! One file to a node.

use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fs_err as fs;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use plexus_proto::ErrorCode;

use super::told::Copied;
use super::wire::{self, Asked, CHUNK, Entry, LEAST_CHUNK, What};
use super::{PARTS, Wish, local};
use crate::failure::{Exit, Failure};
use crate::output::{Bar, Output};
use crate::remote::{Refused, Remote};

/// How often a file is begun again that arrived damaged, or was given up there.
const ATTEMPTS: u32 = 3;

/// What is to be carried.
struct Source {
    file: Arc<std::fs::File>,
    identity: [i64; 6],
    size: u64,
    sha256: String,
    mode: u32,
    modified: String,
}

/// Carries the file `from` to exactly the path `to`, at which `there` is now.
pub(super) async fn file(
    remote: &Remote,
    from: &Path,
    to: &str,
    there: &Entry,
    wish: Wish,
    bar: &Bar,
    out: &Output,
) -> anyhow::Result<Copied> {
    let file = fs::File::open(from)?.into_file();
    let about = file.metadata()?;
    let source = Source {
        identity: local::identity(&about),
        size: about.len(),
        sha256: local::hash(from).await?,
        mode: about.mode() & 0o777,
        modified: local::modified(&about),
        file: Arc::new(file),
    };
    let shown = format!("{}:{to}", remote.node());
    let mut copied = Copied {
        from: from.display().to_string(),
        to: shown.clone(),
        bytes: source.size,
        sha256: source.sha256.clone(),
        resumed: 0,
        unchanged: false,
    };
    let mut replace = wish.force;
    match there.what {
        What::Nothing => {}
        What::File if there.size == source.size && is_same(remote, to, there, &source.sha256).await? => {
            bar.advance(source.size);
            copied.unchanged = true;
            return Ok(copied);
        }
        What::File if replace => {}
        What::File => replace = super::tree::may_replace(&shown, bar, out)?,
        _ => {
            let message = format!("{shown} is there and is no file");
            return Err(Failure::new(Exit::Failed, message)
                .hint("nothing was changed; choose another path")
                .into());
        }
    }
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match attempt(remote, &source, to, replace, bar, &mut copied).await? {
            Ok(()) => return Ok(copied),
            Err(Refused(text)) => last = Some(text),
        }
    }
    Err(Failure::new(Exit::Failed, format!("{shown}: {}", last.unwrap_or_default()))
        .hint("what was there before is unchanged")
        .into())
}

async fn is_same(remote: &Remote, to: &str, there: &Entry, sha256: &str) -> anyhow::Result<bool> {
    Ok(wire::hash(remote, to, &there.identity).await?.as_deref() == Some(sha256))
}

/// Err: it may be begun again.
async fn attempt(
    remote: &Remote,
    source: &Source,
    to: &str,
    replace: bool,
    bar: &Bar,
    copied: &mut Copied,
) -> anyhow::Result<Result<(), Refused>> {
    let about = Asked {
        path: to,
        size: Some(source.size),
        sha256: Some(&source.sha256),
        mode: Some(source.mode),
        modified: Some(&source.modified),
        replace: Some(replace),
        ..Asked::default()
    };
    let begun = wire::ask(remote, Asked { action: "begin", ..about }).await?;
    if begun.exists {
        return Err(local::exists(&copied.to));
    }
    let received = begun.received.unwrap_or(0).min(source.size);
    copied.resumed = copied.resumed.max(received);
    let counted = AtomicU64::new(received);
    bar.advance(received);
    let starts = (received..source.size).step_by(usize::try_from(CHUNK).unwrap_or(1 << 20));
    let parts = stream::iter(starts).map(|offset| {
        let counted = &counted;
        async move {
            let length = CHUNK.min(source.size - offset);
            part(remote, source, to, offset, length).await?;
            counted.fetch_add(length, Ordering::Relaxed);
            bar.advance(length);
            Ok::<(), Stop>(())
        }
    });
    let sent = parts.buffered(PARTS).try_collect::<()>().await;
    let again = |text: String| {
        bar.retract(counted.load(Ordering::Relaxed));
        Ok(Err(Refused(text)))
    };
    match sent {
        Ok(()) => {}
        Err(Stop::Refused(text)) => return again(text),
        Err(Stop::Failed(error)) => return Err(error),
    }
    if local::identity(&source.file.metadata()?) != source.identity {
        wire::ask(remote, Asked { action: "abort", ..about }).await?;
        return Err(changed(&copied.from));
    }
    loop {
        let told = match remote.try_call(wire::TOOL, &Asked { action: "finish", ..about }, None).await? {
            Ok(told) => told,
            Err(Refused(text)) => return again(text),
        };
        let told: wire::Told = told;
        match told {
            told if told.done => return Ok(Ok(())),
            told if told.exists => return Err(local::exists(&copied.to)),
            told if told.damaged => return again("what arrived is not what was sent".to_owned()),
            _ => {}
        }
    }
}

/// Why no more parts are sent.
enum Stop {
    Refused(String),
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// Sends one part, in smaller ones where a hub does not take so much at once.
async fn part(remote: &Remote, source: &Source, to: &str, offset: u64, length: u64) -> Result<(), Stop> {
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
        let Some(data) = read.await? else { return Err(Stop::Failed(changed("the file"))) };
        let asked = Asked {
            action: "write",
            path: to,
            size: Some(source.size),
            sha256: Some(&source.sha256),
            offset: Some(offset),
            data: Some(&data),
            ..Asked::default()
        };
        match remote.try_call::<_, wire::Told>(wire::TOOL, &asked, None).await {
            Ok(Ok(_)) => offset += length,
            Ok(Err(Refused(text))) => return Err(Stop::Refused(text)),
            Err(error) if is_too_large(&error) && length > LEAST_CHUNK => {
                step = (length / 2).max(LEAST_CHUNK)
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(super) fn is_too_large(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.code == Some(ErrorCode::TooLarge))
}

pub(super) fn changed(path: &str) -> anyhow::Error {
    Failure::new(Exit::Failed, format!("{path} was changed while it was copied"))
        .hint("nothing was put in its place; copy it again when nobody writes to it")
        .into()
}
