//! From what was named to the files that are carried: one, or all those of a folder.

use std::path::{Path, PathBuf};

use fs_err as fs;
use futures_util::{StreamExt as _, stream};

use super::told::Told;
use super::wire::{self, Asked, Entry, What};
use super::{FILES, Wish, down, name_of, text, up};
use crate::failure::{Exit, Failure};
use crate::output::{Bar, Output};
use crate::remote::Remote;

/// Files and folders of one copy.
const MOST: usize = 1_000_000;

/// Some: files could not be copied; the worst of it.
type Ended = anyhow::Result<Option<Exit>>;

pub(super) async fn upload(
    remote: &Remote,
    from: &Path,
    to: &str,
    wish: Wish,
    told: &Told,
    out: &Output,
) -> Ended {
    let about = fs::metadata(from)?;
    let there = wire::stat(remote, to).await?;
    let is_missing = there.what == What::Nothing && to.ends_with('/');
    let into = is_missing || there.what == What::Folder;
    if !into && to.ends_with('/') {
        return Err(no_folder(&format!("{}:{to}", remote.node())));
    }
    if !about.is_file() && !about.is_dir() {
        return Err(special(&from.display().to_string()));
    }
    if about.is_dir() {
        needs(wish.recursive, &from.display().to_string())?;
    }
    let folder = to;
    let to = if into { joined(to, &name_of(&text(from)?)?) } else { to.to_owned() };
    if is_missing {
        wire::ask(remote, Asked { action: "make_folder", path: folder, ..Asked::default() }).await?;
    }
    let bar = told.bar();
    if about.is_file() {
        let there = if into { wire::stat(remote, &to).await? } else { there };
        bar.expect(about.len());
        told.copied(&up::file(remote, from, &to, &there, wish, &bar, out).await?)?;
        return Ok(None);
    }
    let mut files = Vec::new();
    let mut waiting = vec![(from.to_owned(), to)];
    while let Some((folder, to)) = waiting.pop() {
        wire::ask(remote, Asked { action: "make_folder", path: &to, ..Asked::default() }).await?;
        let mut entries: Vec<_> = fs::read_dir(&folder)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            let (path, kind) = (entry.path(), entry.file_type()?);
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                told.left_out(&format!("{}, whose name is no UTF-8", path.display()))?;
                continue;
            };
            match (kind.is_dir(), kind.is_file()) {
                (true, _) => waiting.push((path, joined(&to, &name))),
                (_, true) => {
                    bar.expect(entry.metadata()?.len());
                    files.push((path, joined(&to, &name)));
                }
                _ => told.left_out(&format!("{}, which is no file", path.display()))?,
            }
        }
        bounded(files.len() + waiting.len())?;
    }
    let copies = stream::iter(files).map(|(from, to)| {
        let bar = &bar;
        async move {
            let copy = async {
                let there = wire::stat(remote, &to).await?;
                up::file(remote, &from, &to, &there, wish, bar, out).await
            };
            (from.display().to_string(), copy.await)
        }
    });
    all(copies.buffer_unordered(FILES), told).await
}

pub(super) async fn download(
    remote: &Remote,
    from: &str,
    to: &Path,
    wish: Wish,
    told: &Told,
    out: &Output,
) -> Ended {
    let entry = wire::stat(remote, from).await?;
    let shown = format!("{}:{from}", remote.node());
    let is_missing = !to.exists() && to.as_os_str().as_encoded_bytes().ends_with(b"/");
    let into = is_missing || to.is_dir();
    let folder = to;
    let to = if into { to.join(name_of(from)?) } else { to.to_owned() };
    let bar = told.bar();
    match entry.what {
        What::File => {
            if is_missing {
                fs::create_dir_all(folder)?;
            }
            bar.expect(entry.size);
            told.copied(&down::file(remote, from, &entry, &to, wish, &bar, out).await?)?;
            return Ok(None);
        }
        What::Nothing => {
            return Err(Failure::new(Exit::Failed, format!("{shown} does not exist"))
                .hint("a path that does not begin with / or ~/ is in the working folder there")
                .into());
        }
        What::Link | What::Special => return Err(special(&shown)),
        What::Folder => {
            needs(wish.recursive, &shown)?;
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
            let asked = Asked { action: "list", path, after: after.as_deref(), ..Asked::default() };
            let listed = wire::ask(remote, asked).await?;
            if listed.unnamed > 0 && after.is_none() {
                told.left_out(&format!("{} entries of {folder}, whose names are no UTF-8", listed.unnamed))?;
            }
            after = listed.entries.last().map(|entry| entry.name.clone());
            for entry in listed.entries {
                // A node is not believed: a name must not lead out of the folder.
                if entry.name.is_empty()
                    || entry.name.contains(['/', '\0'])
                    || matches!(&*entry.name, "." | "..")
                {
                    return Err(
                        Failure::new(Exit::Failed, format!("{} has a name that is none", shown)).into()
                    );
                }
                let (path, to) = (joined(&folder, &entry.name), to.join(&entry.name));
                match entry.what {
                    What::Folder => waiting.push((path, to)),
                    What::File => {
                        bar.expect(entry.size);
                        files.push((path, entry, to));
                    }
                    _ => told.left_out(&format!("{path}, which is no file"))?,
                }
            }
            bounded(files.len() + waiting.len())?;
            if !listed.more || after.is_none() {
                break;
            }
        }
    }
    let copies = stream::iter(files).map(|(from, entry, to)| {
        let bar = &bar;
        async move {
            let copied = down::file(remote, &from, &entry, &to, wish, bar, out).await;
            (from, copied)
        }
    });
    all(copies.buffer_unordered(FILES), told).await
}

/// Sees all files through: what is wrong with one does not keep the others.
async fn all(
    copies: impl futures_util::Stream<Item = (String, anyhow::Result<super::told::Copied>)>,
    told: &Told,
) -> Ended {
    let mut copies = std::pin::pin!(copies);
    let mut worst = None;
    while let Some((from, copied)) = copies.next().await {
        match copied {
            Ok(copied) => told.copied(&copied)?,
            // Nothing else would get through either.
            Err(error) if is_out_of_reach(&error) => return Err(error),
            Err(error) => worst = worst.max(Some(told.failed(&from, &error)?)),
        }
    }
    Ok(worst)
}

fn is_out_of_reach(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<Failure>()
        .is_some_and(|failure| failure.exit == Exit::Unreachable || failure.retryable)
}

/// Asks whether a file that is there may go; without anybody to ask, it stays.
pub(super) fn may_replace(target: &str, bar: &Bar, out: &Output) -> anyhow::Result<bool> {
    if !out.can_ask() {
        return Err(super::local::exists(target));
    }
    match bar.ask(&format!("{target} is there already. Replace it? [y/N] "))? {
        true => Ok(true),
        false => Err(super::local::exists(target)),
    }
}

fn joined(folder: &str, name: &str) -> String {
    format!("{}/{name}", folder.trim_end_matches('/'))
}

fn needs(recursive: bool, path: &str) -> anyhow::Result<()> {
    match recursive {
        true => Ok(()),
        false => Err(Failure::new(Exit::Usage, format!("{path} is a folder"))
            .hint("-r copies it with all that is in it")
            .into()),
    }
}

fn bounded(entries: usize) -> anyhow::Result<()> {
    match entries > MOST {
        true => Err(Failure::new(Exit::Failed, format!("there are more than {MOST} files"))
            .hint("copy its folders one by one, or pack it with tar")
            .into()),
        false => Ok(()),
    }
}

fn special(path: &str) -> anyhow::Error {
    Failure::new(Exit::Failed, format!("{path} is neither a file nor a folder")).into()
}

fn no_folder(path: &str) -> anyhow::Error {
    Failure::new(Exit::Failed, format!("{path} is not a folder"))
        .hint("nothing was changed; choose another target")
        .into()
}
