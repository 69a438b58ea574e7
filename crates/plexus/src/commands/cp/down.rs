//! One file from a node.
//!
//! Its parts are asked for several at a time and written in their order, so what has arrived is a beginning of it: how far
//! it is, its length says.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt as _, stream};
use plexus_kit::hex;

use super::local::{self, Partial};
use super::told::Copied;
use super::up::{changed, is_too_large};
use super::wire::{self, Asked, CHUNK, Entry, LEAST_CHUNK};
use super::{PARTS, Wish};
use crate::failure::{Exit, Failure};
use crate::output::{Bar, Output};
use crate::remote::{Refused, Remote};

/// Carries the file `from`, which is `entry`, to exactly the path `to`.
pub(super) async fn file(
    remote: &Remote,
    from: &str,
    entry: &Entry,
    to: &Path,
    wish: Wish,
    bar: &Bar,
    out: &Output,
) -> anyhow::Result<Copied> {
    let shown = format!("{}:{from}", remote.node());
    let mut copied = Copied {
        from: shown.clone(),
        to: to.display().to_string(),
        bytes: entry.size,
        sha256: String::new(),
        resumed: 0,
        unchanged: false,
    };
    let mut replace = wish.force;
    match std::fs::metadata(to) {
        Err(_) => {}
        Ok(about) if about.is_file() => {
            if about.len() == entry.size {
                let (here, there) =
                    tokio::try_join!(local::hash(to), wire::hash(remote, from, &entry.identity))?;
                if there.as_ref() == Some(&here) {
                    bar.advance(entry.size);
                    return Ok(Copied { sha256: here, unchanged: true, ..copied });
                }
            }
            replace = replace || super::tree::may_replace(&copied.to, bar, out)?;
        }
        Ok(_) => {
            let message = format!("{} is there and is no file", to.display());
            return Err(Failure::new(Exit::Failed, message)
                .hint("nothing was changed; choose another path")
                .into());
        }
    }
    let source = format!("{}\0{from}\0{}", remote.node(), entry.identity);
    let mut partial = Partial::open(to, &source)?;
    let begun = partial.file.metadata()?.len();
    if begun > entry.size {
        partial.file.set_len(0)?;
    }
    partial.file.seek(SeekFrom::Start(0))?;
    let mut context = Context::new(&SHA256);
    let received = local::add(&mut context, &mut partial.file).context("cannot read what has arrived")?;
    copied.resumed = received;
    bar.advance(received);
    // Of the whole there, while its parts are on their way.
    let (there, here) = tokio::join!(
        wire::hash(remote, from, &entry.identity),
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
        return Err(Failure::new(Exit::Failed, format!("{shown}: what arrived is not what is there"))
            .hint("nothing was put in its place; copy it again")
            .into());
    }
    let (mode, modified) = (entry.mode, entry.modified.clone());
    local::blocking(move || partial.put(mode, &modified, replace)).await?;
    Ok(Copied { sha256: here, ..copied })
}

/// Brings what is missing, and says the hash of the whole. None: the file there is another one by now.
async fn parts(
    remote: &Remote,
    from: &str,
    entry: &Entry,
    received: u64,
    partial: &Partial,
    context: Context,
    bar: &Bar,
) -> anyhow::Result<Option<String>> {
    let starts = (received..entry.size).step_by(usize::try_from(CHUNK).unwrap_or(1 << 20));
    let asked =
        stream::iter(starts).map(|offset| part(remote, from, entry, offset, CHUNK.min(entry.size - offset)));
    let mut parts = asked.buffered(PARTS);
    let context = Arc::new(Mutex::new(context));
    while let Some(part) = parts.next().await {
        let Some(bytes) = part? else { return Ok(None) };
        let length = bytes.len() as u64;
        let (context, mut file) = (context.clone(), partial.file.try_clone()?);
        local::blocking(move || {
            file.write_all(&bytes).context("cannot write what has arrived")?;
            context.lock().unwrap_or_else(PoisonError::into_inner).update(&bytes);
            Ok(())
        })
        .await?;
        bar.advance(length);
    }
    let context = context.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Some(hex::encode(context.finish().as_ref())))
}

/// One part, in smaller ones where a hub does not answer so much at once. None: the file is another one by now.
async fn part(
    remote: &Remote,
    from: &str,
    entry: &Entry,
    offset: u64,
    length: u64,
) -> anyhow::Result<Option<Vec<u8>>> {
    let (mut bytes, mut step) = (Vec::new(), length);
    while (bytes.len() as u64) < length {
        let asked = Asked {
            action: "read",
            path: from,
            identity: Some(&entry.identity),
            offset: Some(offset + bytes.len() as u64),
            length: Some(step.min(length - bytes.len() as u64)),
            ..Asked::default()
        };
        let told = remote.try_call::<_, wire::Told>(wire::TOOL, &asked, None).await;
        let told = match told {
            Ok(Ok(told)) => told,
            // Too much for one answer is said by the tool's own words.
            Ok(Err(Refused(text))) if text.contains("bytes, the most allowed") && step > LEAST_CHUNK => {
                step = (step / 2).max(LEAST_CHUNK);
                continue;
            }
            Ok(Err(Refused(text))) => {
                return Err(Failure::new(Exit::Failed, format!("{from}: {text}")).into());
            }
            Err(error) if is_too_large(&error) && step > LEAST_CHUNK => {
                step = (step / 2).max(LEAST_CHUNK);
                continue;
            }
            Err(error) => return Err(error),
        };
        let Some(data) = told.data.filter(|_| !told.changed) else { return Ok(None) };
        let part =
            local::blocking(move || STANDARD.decode(data).context("a part of the file is no base64")).await?;
        if part.is_empty() {
            return Ok(None);
        }
        bytes.extend_from_slice(&part);
    }
    Ok(Some(bytes))
}
