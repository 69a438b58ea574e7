//! Finds the files to copy, one or all those of a folder, and copies them.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use futures_util::{StreamExt as _, stream};

use super::report::CopyReport;
use super::transfer::{self, Entry, EntryKind, TransferRequest};
use super::{CopyOptions, FILES, download, name_of, text, upload};
use crate::failure::{Exit, Failure};
use crate::output::{Bar, Output};
use crate::remote::Remote;

/// Most files and folders of one copy.
const MAX_FILES: usize = 1_000_000;

/// The highest exit code of the files that could not be copied; none if all were copied.
type CopyResult = anyhow::Result<Option<Exit>>;

pub(super) async fn upload(
    remote: &Remote,
    from: &Path,
    to: &str,
    options: CopyOptions,
    report: &CopyReport,
    out: &Output,
) -> CopyResult {
    let metadata = fs::metadata(from).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::new(Exit::Failed, format!("{} does not exist", from.display())).into()
        }
        _ => anyhow::Error::from(error),
    })?;
    let there = transfer::stat(remote, to).await?;
    let is_missing = there.kind == EntryKind::Nothing && to.ends_with('/');
    let into = is_missing || there.kind == EntryKind::Folder;
    if !into && to.ends_with('/') {
        return Err(not_a_folder(&format!("{}:{to}", remote.node())));
    }
    if !metadata.is_file() && !metadata.is_dir() {
        return Err(unsupported(&from.display().to_string()));
    }
    if metadata.is_dir() {
        require_recursive(options.recursive, &from.display().to_string())?;
    }
    let folder = to;
    let to = if into { joined(to, &name_of(&text(from)?)?) } else { to.to_owned() };
    if is_missing {
        transfer::call(
            remote,
            TransferRequest { action: "make_folder", path: folder, ..TransferRequest::default() },
        )
        .await?;
    }
    let bar = report.bar();
    if metadata.is_file() {
        let there = if into { transfer::stat(remote, &to).await? } else { there };
        bar.expect(metadata.len());
        report.copied(&upload::upload_file(remote, from, &to, &there, options, &bar, out).await?)?;
        return Ok(None);
    }
    let mut files = Vec::new();
    let mut waiting = vec![(from.to_owned(), to)];
    while let Some((folder, to)) = waiting.pop() {
        transfer::call(
            remote,
            TransferRequest { action: "make_folder", path: &to, ..TransferRequest::default() },
        )
        .await?;
        let mut entries: Vec<_> = fs::read_dir(&folder)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            let (path, kind) = (entry.path(), entry.file_type()?);
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                report.skipped(&format!("{}, whose name is not UTF-8", path.display()))?;
                continue;
            };
            match (kind.is_dir(), kind.is_file()) {
                (true, _) => waiting.push((path, joined(&to, &name))),
                (_, true) => {
                    bar.expect(entry.metadata()?.len());
                    files.push((path, joined(&to, &name)));
                }
                _ => report.skipped(&format!("{}, which is not a regular file", path.display()))?,
            }
        }
        check_count(files.len() + waiting.len())?;
    }
    let copies = stream::iter(files).map(|(from, to)| {
        let bar = &bar;
        async move {
            let copy = async {
                let there = transfer::stat(remote, &to).await?;
                upload::upload_file(remote, &from, &to, &there, options, bar, out).await
            };
            (from.display().to_string(), copy.await)
        }
    });
    copy_all(copies.buffer_unordered(FILES), report).await
}

pub(super) async fn download(
    remote: &Remote,
    from: &str,
    to: &Path,
    options: CopyOptions,
    report: &CopyReport,
    out: &Output,
) -> CopyResult {
    let entry = transfer::stat(remote, from).await?;
    let shown = format!("{}:{from}", remote.node());
    let is_missing = !to.exists() && to.as_os_str().as_encoded_bytes().ends_with(b"/");
    let into = is_missing || to.is_dir();
    let folder = to;
    let to = if into { to.join(name_of(from)?) } else { to.to_owned() };
    let bar = report.bar();
    match entry.kind {
        EntryKind::File => {
            if is_missing {
                fs::create_dir_all(folder)?;
            }
            bar.expect(entry.size);
            report.copied(&download::download_file(remote, from, &entry, &to, options, &bar, out).await?)?;
            return Ok(None);
        }
        EntryKind::Nothing => {
            return Err(Failure::new(Exit::Failed, format!("{shown} does not exist"))
                .hint("a path that does not begin with / or ~/ is relative to the node's working folder")
                .into());
        }
        EntryKind::Link | EntryKind::Special => return Err(unsupported(&shown)),
        EntryKind::Folder => {
            require_recursive(options.recursive, &shown)?;
            if is_missing {
                fs::create_dir_all(folder)?;
            }
        }
    }
    let mut files: Vec<(String, Entry, PathBuf)> = Vec::new();
    let mut waiting = vec![(from.trim_end_matches('/').to_owned(), to)];
    while let Some((folder, to)) = waiting.pop() {
        match fs::create_dir(&to) {
            Err(_) if to.is_dir() => {}
            made => made?,
        }
        let mut after = None;
        loop {
            let path = if folder.is_empty() { "/" } else { &folder };
            let request = TransferRequest {
                action: "list",
                path,
                after: after.as_deref(),
                ..TransferRequest::default()
            };
            let listed = transfer::call(remote, request).await?;
            if listed.unnamed > 0 && after.is_none() {
                report
                    .skipped(&format!("{} entries of {folder}, whose names are not UTF-8", listed.unnamed))?;
            }
            after = listed.entries.last().map(|entry| entry.name.clone());
            for entry in listed.entries {
                // The node is not trusted: a name must not lead out of the folder.
                if entry.name.is_empty()
                    || entry.name.contains(['/', '\0'])
                    || matches!(&*entry.name, "." | "..")
                {
                    return Err(Failure::new(
                        Exit::Failed,
                        format!("{} contains an invalid file name", shown),
                    )
                    .into());
                }
                let (path, to) = (joined(&folder, &entry.name), to.join(&entry.name));
                match entry.kind {
                    EntryKind::Folder => waiting.push((path, to)),
                    EntryKind::File => {
                        bar.expect(entry.size);
                        files.push((path, entry, to));
                    }
                    _ => report.skipped(&format!("{path}, which is not a regular file"))?,
                }
            }
            check_count(files.len() + waiting.len())?;
            if !listed.more || after.is_none() {
                break;
            }
        }
    }
    let copies = stream::iter(files).map(|(from, entry, to)| {
        let bar = &bar;
        async move {
            let copied = download::download_file(remote, &from, &entry, &to, options, bar, out).await;
            (from, copied)
        }
    });
    copy_all(copies.buffer_unordered(FILES), report).await
}

/// Copies all files; an error of one file does not stop the others.
async fn copy_all(
    copies: impl futures_util::Stream<Item = (String, anyhow::Result<super::report::CopiedFile>)>,
    report: &CopyReport,
) -> CopyResult {
    let mut copies = std::pin::pin!(copies);
    let mut worst = None;
    while let Some((from, copied)) = copies.next().await {
        match copied {
            Ok(copied) => report.copied(&copied)?,
            // The other files would fail as well.
            Err(error) if is_unreachable(&error) => return Err(error),
            Err(error) => worst = worst.max(Some(report.failed(&from, &error)?)),
        }
    }
    Ok(worst)
}

fn is_unreachable(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<Failure>()
        .is_some_and(|failure| failure.exit == Exit::Unreachable || failure.retryable)
}

/// Asks whether to replace an existing file; an error without a terminal.
pub(super) fn may_replace(target: &str, bar: &Bar, out: &Output) -> anyhow::Result<bool> {
    if !out.can_prompt() {
        return Err(super::local::already_exists(target));
    }
    match bar.ask(&format!("{target} already exists. Replace it? [y/N] "))? {
        true => Ok(true),
        false => Err(super::local::already_exists(target)),
    }
}

fn joined(folder: &str, name: &str) -> String {
    format!("{}/{name}", folder.trim_end_matches('/'))
}

fn require_recursive(recursive: bool, path: &str) -> anyhow::Result<()> {
    match recursive {
        true => Ok(()),
        false => Err(Failure::new(Exit::Usage, format!("{path} is a folder"))
            .hint("-r copies it with everything in it")
            .into()),
    }
}

fn check_count(entries: usize) -> anyhow::Result<()> {
    match entries > MAX_FILES {
        true => Err(Failure::new(Exit::Failed, format!("there are more than {MAX_FILES} files"))
            .hint("copy its folders one by one, or pack it with tar")
            .into()),
        false => Ok(()),
    }
}

fn unsupported(path: &str) -> anyhow::Error {
    Failure::new(Exit::Failed, format!("{path} is neither a file nor a folder")).into()
}

fn not_a_folder(path: &str) -> anyhow::Error {
    Failure::new(Exit::Failed, format!("{path} is not a folder"))
        .hint("nothing was changed; choose another target")
        .into()
}
