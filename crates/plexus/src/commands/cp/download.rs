//! Downloads one file from a node.
//!
//! Several parts are requested concurrently and written in order, so the length of the partial file is the offset at which
//! to resume.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt as _, stream};
use plexus_kit::hex;

use super::local::{self, PartialFile};
use super::report::CopiedFile;
use super::transfer::{self, CHUNK, Entry, MIN_CHUNK, TransferRequest};
use super::upload::{changed, is_too_large};
use super::{CopyOptions, PARTS};
use crate::failure::{Exit, Failure};
use crate::output::{Bar, Output};
use crate::remote::{Remote, ToolRefusal};

/// Copies the file `from`, described by `entry`, to exactly the path `to`.
pub(super) async fn download_file(
    remote: &Remote,
    from: &str,
    entry: &Entry,
    to: &Path,
    options: CopyOptions,
    bar: &Bar,
    out: &Output,
) -> anyhow::Result<CopiedFile> {
    let shown = format!("{}:{from}", remote.node());
    let mut copied = CopiedFile {
        from: shown.clone(),
        to: to.display().to_string(),
        bytes: entry.size,
        sha256: String::new(),
        resumed: 0,
        unchanged: false,
    };
    let mut replace = options.force;
    match std::fs::metadata(to) {
        Err(_) => {}
        Ok(metadata) if metadata.is_file() => {
            if metadata.len() == entry.size {
                let (here, there) =
                    tokio::try_join!(local::hash(to), transfer::hash(remote, from, &entry.identity))?;
                if there.as_ref() == Some(&here) {
                    bar.advance(entry.size);
                    return Ok(CopiedFile { sha256: here, unchanged: true, ..copied });
                }
            }
            replace = replace || super::tree::may_replace(&copied.to, bar, out)?;
        }
        Ok(_) => {
            let message = format!("{} exists and is not a file", to.display());
            return Err(Failure::new(Exit::Failed, message)
                .hint("nothing was changed; choose another path")
                .into());
        }
    }
    let source = format!("{}\0{from}\0{}", remote.node(), entry.identity);
    let mut partial = PartialFile::open(to, &source)?;
    let length = partial.file.metadata()?.len();
    if length > entry.size {
        partial.file.set_len(0)?;
    }
    partial.file.seek(SeekFrom::Start(0))?;
    let mut context = Context::new(&SHA256);
    let received = local::add(&mut context, &mut partial.file).context("cannot read the partial file")?;
    copied.resumed = received;
    bar.advance(received);
    // The node computes the hash of the whole file while its parts are in flight.
    let (there, here) = tokio::join!(
        transfer::hash(remote, from, &entry.identity),
        parts(remote, from, entry, received, &partial, context, bar)
    );
    let (there, here) = match (there, here) {
        (Ok(there), Ok(here)) => (there, here),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let (Some(there), Some(here)) = (there, here) else {
        partial.remove();
        return Err(changed(&shown));
    };
    if there != here {
        partial.remove();
        return Err(Failure::new(
            Exit::Failed,
            format!("{shown}: the received content differs from the source"),
        )
        .hint("the target was not changed; copy the file again")
        .into());
    }
    let (mode, modified) = (entry.mode, entry.modified.clone());
    local::blocking(move || partial.commit(mode, &modified, replace)).await?;
    Ok(CopiedFile { sha256: here, ..copied })
}

/// Fetches the missing parts and returns the hash of the whole file; none if the source has changed.
async fn parts(
    remote: &Remote,
    from: &str,
    entry: &Entry,
    received: u64,
    partial: &PartialFile,
    context: Context,
    bar: &Bar,
) -> anyhow::Result<Option<String>> {
    let starts = (received..entry.size).step_by(usize::try_from(CHUNK).unwrap_or(1 << 20));
    let request =
        stream::iter(starts).map(|offset| part(remote, from, entry, offset, CHUNK.min(entry.size - offset)));
    let mut parts = request.buffered(PARTS);
    let context = Arc::new(Mutex::new(context));
    while let Some(part) = parts.next().await {
        let Some(bytes) = part? else { return Ok(None) };
        let length = bytes.len() as u64;
        let (context, mut file) = (context.clone(), partial.file.try_clone()?);
        local::blocking(move || {
            file.write_all(&bytes).context("cannot write the partial file")?;
            context.lock().unwrap_or_else(PoisonError::into_inner).update(&bytes);
            Ok(())
        })
        .await?;
        bar.advance(length);
    }
    let context = context.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Some(hex::encode(context.finish().as_ref())))
}

/// Fetches one part, in smaller requests if the hub refuses large responses. None if the source has changed.
async fn part(
    remote: &Remote,
    from: &str,
    entry: &Entry,
    offset: u64,
    length: u64,
) -> anyhow::Result<Option<Vec<u8>>> {
    let (mut bytes, mut step) = (Vec::new(), length);
    while (bytes.len() as u64) < length {
        let request = TransferRequest {
            action: "read",
            path: from,
            identity: Some(&entry.identity),
            offset: Some(offset + bytes.len() as u64),
            length: Some(step.min(length - bytes.len() as u64)),
            ..TransferRequest::default()
        };
        let reply = remote.try_call::<_, transfer::TransferReply>(transfer::TOOL, &request, None).await;
        let reply = match reply {
            Ok(Ok(reply)) => reply,
            // The tool reports an oversized response as text, not as a code.
            Ok(Err(ToolRefusal(text))) if text.contains("bytes, the most allowed") && step > MIN_CHUNK => {
                step = (step / 2).max(MIN_CHUNK);
                continue;
            }
            Ok(Err(ToolRefusal(text))) => {
                return Err(Failure::new(Exit::Failed, format!("{from}: {text}")).into());
            }
            Err(error) if is_too_large(&error) && step > MIN_CHUNK => {
                step = (step / 2).max(MIN_CHUNK);
                continue;
            }
            Err(error) => return Err(error),
        };
        let Some(data) = reply.data.filter(|_| !reply.changed) else { return Ok(None) };
        let part = local::blocking(move || STANDARD.decode(data).context("a part of the file is not base64"))
            .await?;
        if part.is_empty() {
            return Ok(None);
        }
        bytes.extend_from_slice(&part);
    }
    Ok(Some(bytes))
}
