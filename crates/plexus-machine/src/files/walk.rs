//! A multithreaded walk through a folder.
//!
//! Every folder is opened relative to the root of the walk without following symlinks, and every file relative to its
//! folder. A folder that is replaced by a symlink during the walk is not entered, so all paths are real. Paths that
//! the policy denies are skipped.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::ignored::{IgnoreRules, is_hidden};
use super::{FileKind, Files, Folder};
use crate::policy::AccessKind;

/// The same maximum as in ripgrep.
const MAX_THREADS: usize = 12;
/// The number of files of one folder that form a unit of work.
const FILES_PER_UNIT: usize = 256;

/// The options of a walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    /// Also include names that begin with a dot.
    pub(crate) hidden: bool,
    /// Also include paths excluded by `.gitignore` and `.ignore`, and `.git`.
    pub(crate) ignored: bool,
    /// The maximum depth; direct entries have depth 1.
    pub(crate) depth: usize,
}

/// An entry reached by a walk.
#[derive(Debug)]
pub(crate) struct WalkEntry<'a> {
    /// The folder that contains it.
    pub(crate) folder: &'a Folder,
    pub(crate) name: &'a OsStr,
    pub(crate) kind: FileKind,
    /// The path relative to the root of the walk.
    pub(crate) relative: &'a Path,
}

/// Receives the entries; there is one visitor per thread.
pub(crate) trait WalkVisitor: Send {
    fn visit(&mut self, found: &WalkEntry<'_>);
}

#[derive(Debug)]
pub(crate) struct WalkResult<V> {
    pub(crate) visitors: Vec<V>,
    /// The number of folders that could not be opened.
    pub(crate) closed: usize,
}

enum Work {
    Folder(Inner),
    /// Some of the files of a large folder.
    Files(Arc<Folder>, PathBuf, Vec<(OsString, FileKind)>),
}

/// A folder in the queue.
struct Inner {
    relative: PathBuf,
    depth: usize,
    rules: Option<Arc<IgnoreRules>>,
    /// Nothing in it is denied.
    is_open: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Work>,
    busy: usize,
}

struct Walker<'a> {
    files: &'a Files,
    root: &'a Folder,
    how: Walk,
    stop: &'a (dyn Fn() -> bool + Sync),
    queue: Mutex<Queue>,
    changed: Condvar,
    closed: AtomicUsize,
}

/// Passes everything below `root` to the visitors until `stop` returns true.
pub(crate) fn walk<V: WalkVisitor>(
    files: &Files,
    root: &Folder,
    how: Walk,
    stop: &(dyn Fn() -> bool + Sync),
    make: impl Fn() -> V + Sync,
) -> WalkResult<V> {
    let rules = (!how.ignored).then(|| IgnoreRules::inherited(files, root.path())).flatten();
    let first = Work::Folder(Inner { relative: PathBuf::new(), depth: 1, rules, is_open: false });
    let walker = Walker {
        files,
        root,
        how,
        stop,
        queue: Mutex::new(Queue { waiting: vec![first], busy: 0 }),
        changed: Condvar::new(),
        closed: AtomicUsize::new(0),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let visitors = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| walker.work(make()))).collect();
        let mut visitors = vec![walker.work(make())];
        visitors.extend(others.into_iter().filter_map(|other| other.join().ok()));
        visitors
    });
    WalkResult { visitors, closed: walker.closed.into_inner() }
}

impl Walker<'_> {
    fn work<V: WalkVisitor>(&self, mut visitor: V) -> V {
        while let Some(work) = self.next() {
            let _done = WorkGuard(self);
            if (self.stop)() {
                continue;
            }
            match work {
                Work::Folder(inner) => self.folder(inner, &mut visitor),
                Work::Files(folder, relative, entries) => {
                    self.report_entries(&folder, relative, &entries, &mut visitor);
                }
            }
        }
        visitor
    }

    /// Waits for the next unit of work. Returns `None` when all work is done.
    fn next(&self) -> Option<Work> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(work) = queue.waiting.pop() {
                queue.busy += 1;
                return Some(work);
            }
            if queue.busy == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn folder<V: WalkVisitor>(&self, inner: Inner, visitor: &mut V) {
        let opened = self.root.folder_below(&inner.relative);
        let read = opened.and_then(|folder| folder.entries().map(|entries| (folder, entries)));
        let Ok((folder, mut entries)) = read else {
            self.closed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let is_open = inner.is_open || !self.files.policy().files.has_denied_below(folder.path());
        let rules = match self.how.ignored {
            true => None,
            false => IgnoreRules::for_folder(inner.rules, &folder, &entries),
        };
        let mut path = folder.path().join("x");
        entries.retain(|(name, kind)| {
            if !self.how.hidden && is_hidden(name) || !self.how.ignored && name == ".git" {
                return false;
            }
            if is_open && rules.is_none() {
                return true;
            }
            path.set_file_name(name);
            (is_open || self.files.check(&path, AccessKind::Read).is_ok())
                && !rules.as_ref().is_some_and(|rules| rules.ignore(&path, *kind == FileKind::Folder))
        });
        if inner.depth < self.how.depth {
            let folders = entries.iter().filter(|(_, kind)| *kind == FileKind::Folder);
            let folders = folders.map(|(name, _)| {
                let (relative, rules) = (inner.relative.join(name), rules.clone());
                Work::Folder(Inner { relative, depth: inner.depth + 1, rules, is_open })
            });
            self.add(folders.collect());
        }
        if entries.len() <= FILES_PER_UNIT {
            return self.report_entries(&folder, inner.relative, &entries, visitor);
        }
        let folder = Arc::new(folder);
        let pieces = entries.chunks(FILES_PER_UNIT);
        self.add(
            pieces.map(|piece| Work::Files(folder.clone(), inner.relative.clone(), piece.to_vec())).collect(),
        );
    }

    fn add(&self, work: Vec<Work>) {
        if !work.is_empty() {
            self.queue.lock().unwrap_or_else(PoisonError::into_inner).waiting.extend(work);
            self.changed.notify_all();
        }
    }

    fn report_entries<V: WalkVisitor>(
        &self,
        folder: &Folder,
        mut relative: PathBuf,
        entries: &[(OsString, FileKind)],
        visitor: &mut V,
    ) {
        for (name, kind) in entries {
            if (self.stop)() {
                return;
            }
            relative.push(name);
            visitor.visit(&WalkEntry { folder, name, kind: *kind, relative: &relative });
            relative.pop();
        }
    }
}

/// Marks a unit of work as finished, also if a visitor panics.
struct WorkGuard<'w, 'a>(&'w Walker<'a>);

impl Drop for WorkGuard<'_, '_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.busy -= 1;
        if queue.busy == 0 && queue.waiting.is_empty() {
            self.0.changed.notify_all();
        }
    }
}
