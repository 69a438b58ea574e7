//! `list`, `tree` and `stat`: show entries and metadata.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use plexus_kit::clock;
use plexus_tools::CallError;
use rustix::fs::Stat;

use super::FileCall;
use super::args::Args;
use super::content::Encoding;
use super::report::{About, Answer, Entry, Output, Total, one_line};
use crate::files::{FileKind, Folder, Walk, WalkEntry, WalkVisitor, walk};
use crate::policy::AccessKind;

/// The default and maximum number of entries of a list or tree.
const DEFAULT_LISTED: usize = 500;
pub(super) const MAX_LISTED: usize = 2_000;
/// The number of entries after which a tree stops counting.
const COUNTED: u64 = 1_000_000;

impl FileCall {
    pub(super) fn list(&self, path: &Path, args: &Args) -> Result<Answer, CallError> {
        let folder = self.files.folder(path)?;
        let mut entries = folder.entries()?;
        entries.retain(|(name, _)| self.files.check(&folder.path().join(name), AccessKind::Read).is_ok());
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let total = entries.len();
        let offset = usize::try_from(args.offset.unwrap_or(0)).unwrap_or(0).min(total);
        let limit = limit(args, DEFAULT_LISTED);
        let shown: Vec<Entry> = entries[offset..]
            .iter()
            .take(limit)
            .map(|(name, kind)| entry(&folder, Path::new(name), *kind))
            .collect();
        let mut text = String::new();
        for entry in &shown {
            let size = entry.bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
            text.push_str(&format!("{size:>12}  {}\n", line(entry, &entry.path)));
        }
        if total == 0 {
            text.push_str("The folder is empty.\n");
        }
        let next = offset + shown.len();
        let mut output = Output { path: folder.path().display().to_string(), ..Output::default() };
        if next < total {
            output.notes.push(format!("{next} of {total}; more with offset {next}"));
        }
        output.total = Some(Total { entries: total as u64, truncated: next < total, ..Total::default() });
        output.entries = Some(shown);
        Ok(Answer::new(text, output))
    }

    pub(super) fn tree(&self, path: &Path, args: &Args) -> Result<Answer, CallError> {
        let folder = self.files.folder(path)?;
        let how = Walk {
            hidden: args.hidden.unwrap_or(false),
            ignored: args.ignored.unwrap_or(false),
            depth: args.depth.unwrap_or(3),
        };
        let limit = limit(args, DEFAULT_LISTED);
        let found = FirstResults::new(limit);
        let stop = || self.cancel.is_cancelled() || found.count() > COUNTED;
        let walked = walk(&self.files, &folder, how, &stop, || Collector(&found));
        self.check_cancelled()?;
        let (all, count) = (found.sorted(), found.count());
        let mut text = format!("{}/\n", one_line(&folder.path().display().to_string()));
        let mut entries = Vec::new();
        for (relative, kind) in &all {
            // The name is real, but the entry at that path may have been replaced, so it is not examined.
            let path = relative.to_string_lossy().into_owned();
            let entry = Entry { path, kind: kind_name(*kind), bytes: None, modified_at: None, link_to: None };
            let depth = relative.components().count();
            let name =
                relative.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            text.push_str(&format!("{}{}\n", "  ".repeat(depth), line(&entry, &name)));
            entries.push(entry);
        }
        let truncated = count > all.len() as u64;
        let mut output = Output { path: folder.path().display().to_string(), ..Output::default() };
        if truncated {
            output.notes.push(format!(
                "{} of {count}{}; lower `depth`, choose a subfolder, or raise `limit`",
                all.len(),
                if count > COUNTED { " and more" } else { "" }
            ));
        }
        output.total = Some(Total {
            entries: count,
            truncated,
            closed: (walked.closed > 0).then_some(walked.closed as u64),
            ..Total::default()
        });
        output.entries = Some(entries);
        Ok(Answer::new(text, output))
    }

    pub(super) fn stat(&self, path: &Path) -> Result<Answer, CallError> {
        let handle = self.files.open_handle(path)?;
        let mut about = About::of(handle.stat(), kind_name(handle.kind()));
        about.can_be_written = self.files.check(handle.path(), AccessKind::Write).is_ok();
        // A symlink at the path itself, if the path may be examined under its own name.
        if let Ok(metadata) = std::fs::symlink_metadata(path)
            && metadata.is_symlink()
        {
            about.link_to = std::fs::read_link(path).ok().map(|target| target.display().to_string());
        }
        let mut output = Output { path: handle.path().display().to_string(), ..Output::default() };
        if handle.kind() == FileKind::File
            && let Ok(file) = handle.read()
            && let Ok((encoding, _)) = Encoding::sample(&file)
        {
            about.looks_like = Some(match encoding {
                Encoding::Binary(what) => what.to_owned(),
                Encoding::Unknown => "text that is not UTF-8".to_owned(),
                encoding => format!("{} text", encoding.name()),
            });
        }
        if about.bytes > about.on_disk.saturating_add(1 << 20) {
            output.notes.push(format!(
                "the file is sparse: {} of {} bytes are on the disk",
                about.on_disk, about.bytes
            ));
        }
        let looks = about.looks_like.as_deref().map(|looks| format!(", {looks}")).unwrap_or_default();
        let link =
            about.link_to.as_deref().map(|to| format!("\nsymlink to {}", one_line(to))).unwrap_or_default();
        let text = format!(
            "{}: {}, {} bytes, {}{looks}\nmodified {}, {}{link}\n",
            one_line(&output.path),
            about.kind,
            about.bytes,
            mode_text(&about),
            about.modified_at,
            if about.can_be_written { "writable" } else { "not writable" },
        );
        output.about = Some(about);
        Ok(Answer::new(text, output))
    }
}

pub(super) fn limit(args: &Args, default: usize) -> usize {
    args.limit.map_or(default, |limit| limit as usize).min(MAX_LISTED)
}

pub(super) fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Folder => "folder",
        FileKind::Link => "link",
        FileKind::Special => "special",
    }
}

pub(super) fn mode_text(about: &About) -> String {
    format!("mode {} of {}:{}", about.mode, about.uid, about.gid)
}

impl About {
    // The integer types differ between systems.
    #[allow(clippy::unnecessary_cast, trivial_numeric_casts)]
    pub(super) fn of(about: &Stat, kind: &'static str) -> Self {
        Self {
            kind: kind.to_owned(),
            bytes: about.st_size as u64,
            on_disk: (about.st_blocks as u64).saturating_mul(512),
            mode: format!("{:04o}", about.st_mode & 0o7777),
            uid: about.st_uid,
            gid: about.st_gid,
            names: about.st_nlink as u64,
            modified_at: modified(about),
            link_to: None,
            looks_like: None,
            can_be_written: false,
        }
    }
}

#[allow(clippy::unnecessary_cast, trivial_numeric_casts)]
fn modified(about: &Stat) -> plexus_proto::Timestamp {
    let millis = (about.st_mtime as i64).saturating_mul(1_000);
    clock::from_millis(millis.saturating_add(about.st_mtime_nsec as i64 / 1_000_000))
}

#[allow(clippy::unnecessary_cast, trivial_numeric_casts)]
fn entry(folder: &Folder, relative: &Path, kind: FileKind) -> Entry {
    let about = folder.stat(relative.as_os_str()).ok().flatten();
    let link_to = (kind == FileKind::Link)
        .then(|| rustix::fs::readlinkat(folder, relative, Vec::new()).ok())
        .flatten()
        .map(|target| target.to_string_lossy().into_owned());
    Entry {
        path: relative.to_string_lossy().into_owned(),
        kind: kind_name(kind),
        bytes: about.as_ref().filter(|_| kind == FileKind::File).map(|about| about.st_size as u64),
        modified_at: about.as_ref().map(modified),
        link_to,
    }
}

fn line(entry: &Entry, name: &str) -> String {
    let name = one_line(name);
    match (entry.kind, &entry.link_to) {
        ("folder", _) => format!("{name}/"),
        ("link", Some(to)) => format!("{name} -> {}", one_line(to)),
        ("link", None) => format!("{name} (link)"),
        ("special", _) => format!("{name} (special)"),
        _ => name,
    }
}

/// Collects the first results of a walk in path order, and counts all of them.
#[derive(Debug)]
pub(super) struct FirstResults {
    found: Mutex<std::collections::BTreeMap<PathBuf, FileKind>>,
    max_results: usize,
    count: AtomicU64,
}

impl FirstResults {
    pub(super) fn new(max_results: usize) -> Self {
        Self { found: Mutex::default(), max_results, count: AtomicU64::new(0) }
    }

    pub(super) fn add(&self, relative: &Path, kind: FileKind) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut found = self.found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if found.len() >= self.max_results
            && found.last_key_value().is_some_and(|(last, _)| last.as_path() < relative)
        {
            return;
        }
        found.insert(relative.to_owned(), kind);
        if found.len() > self.max_results {
            found.pop_last();
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn sorted(&self) -> Vec<(PathBuf, FileKind)> {
        let mut found = self.found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut *found).into_iter().collect()
    }
}

struct Collector<'a>(&'a FirstResults);

impl WalkVisitor for Collector<'_> {
    fn visit(&mut self, found: &WalkEntry<'_>) {
        self.0.add(found.relative, found.kind);
    }
}
