//! A walk through a folder, by several threads at once.
//!
//! Every folder is opened from the one that the walk began at, through no link, and every file from the folder that it is in.
//! What is swapped for a link while the walk goes on is not entered, so that all paths are real ones. What the policy denies
//! is not shown.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::ignored::{Rules, is_hidden};
use super::{Files, Folder, Kind};
use crate::policy::Want;

/// As many threads as ripgrep takes at most.
const THREADS: usize = 12;
/// Files of one folder that are a piece of work.
const PIECE: usize = 256;

/// What is walked through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    /// Also names that begin with a dot.
    pub(crate) hidden: bool,
    /// Also what `.gitignore` and `.ignore` leave out, and `.git`.
    pub(crate) ignored: bool,
    /// Folders within folders; what is right in the first one is at 1.
    pub(crate) depth: usize,
}

/// What a walk has come to.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    /// The folder that it is in.
    pub(crate) folder: &'a Folder,
    pub(crate) name: &'a OsStr,
    pub(crate) kind: Kind,
    /// From where the walk began.
    pub(crate) relative: &'a Path,
}

/// One for each thread.
pub(crate) trait Visit: Send {
    fn found(&mut self, found: &Found<'_>);
}

#[derive(Debug)]
pub(crate) struct Walked<V> {
    pub(crate) visitors: Vec<V>,
    /// Folders that could not be opened.
    pub(crate) closed: usize,
}

enum Work {
    Folder(Inner),
    /// Some of the files of a folder that has many.
    Files(Arc<Folder>, PathBuf, Vec<(OsString, Kind)>),
}

/// A folder on the way.
struct Inner {
    relative: PathBuf,
    depth: usize,
    rules: Option<Arc<Rules>>,
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

/// Shows everything below `root` to the visitors, until `stop` says so.
pub(crate) fn walk<V: Visit>(
    files: &Files,
    root: &Folder,
    how: Walk,
    stop: &(dyn Fn() -> bool + Sync),
    make: impl Fn() -> V + Sync,
) -> Walked<V> {
    let rules = (!how.ignored).then(|| Rules::above(files, root.path())).flatten();
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
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let visitors = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| walker.work(make()))).collect();
        let mut visitors = vec![walker.work(make())];
        visitors.extend(others.into_iter().filter_map(|other| other.join().ok()));
        visitors
    });
    Walked { visitors, closed: walker.closed.into_inner() }
}

impl Walker<'_> {
    fn work<V: Visit>(&self, mut visitor: V) -> V {
        while let Some(work) = self.next() {
            let _done = Done(self);
            if (self.stop)() {
                continue;
            }
            match work {
                Work::Folder(inner) => self.folder(inner, &mut visitor),
                Work::Files(folder, relative, entries) => {
                    self.show(&folder, relative, &entries, &mut visitor);
                }
            }
        }
        visitor
    }

    /// What is to be done next; none when all is done.
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

    fn folder<V: Visit>(&self, inner: Inner, visitor: &mut V) {
        let opened = self.root.folder_below(&inner.relative);
        let read = opened.and_then(|folder| folder.entries().map(|entries| (folder, entries)));
        let Ok((folder, mut entries)) = read else {
            self.closed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let is_open = inner.is_open || !self.files.policy().files.has_denied_below(folder.path());
        let rules = match self.how.ignored {
            true => None,
            false => Rules::within(inner.rules, &folder, &entries),
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
            (is_open || self.files.check(&path, Want::Read).is_ok())
                && !rules.as_ref().is_some_and(|rules| rules.ignore(&path, *kind == Kind::Folder))
        });
        if inner.depth < self.how.depth {
            let folders = entries.iter().filter(|(_, kind)| *kind == Kind::Folder);
            let folders = folders.map(|(name, _)| {
                let (relative, rules) = (inner.relative.join(name), rules.clone());
                Work::Folder(Inner { relative, depth: inner.depth + 1, rules, is_open })
            });
            self.add(folders.collect());
        }
        if entries.len() <= PIECE {
            return self.show(&folder, inner.relative, &entries, visitor);
        }
        let folder = Arc::new(folder);
        let pieces = entries.chunks(PIECE);
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

    fn show<V: Visit>(
        &self,
        folder: &Folder,
        mut relative: PathBuf,
        entries: &[(OsString, Kind)],
        visitor: &mut V,
    ) {
        for (name, kind) in entries {
            if (self.stop)() {
                return;
            }
            relative.push(name);
            visitor.found(&Found { folder, name, kind: *kind, relative: &relative });
            relative.pop();
        }
    }
}

/// One piece of work less that goes on, also where a visitor panics.
struct Done<'w, 'a>(&'w Walker<'a>);

impl Drop for Done<'_, '_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.busy -= 1;
        if queue.busy == 0 && queue.waiting.is_empty() {
            self.0.changed.notify_all();
        }
    }
}
