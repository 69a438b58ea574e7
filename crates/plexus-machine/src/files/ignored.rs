//! What a walk leaves out because `.gitignore` and `.ignore` say so, as git and ripgrep read them.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{Files, Folder, Kind};

/// No file of rules is as long as this.
const MAX: u64 = 1 << 20;

/// The rules of a folder, and of those above it.
#[derive(Debug)]
pub(super) struct Rules {
    above: Option<Arc<Rules>>,
    git: Option<Gitignore>,
    own: Option<Gitignore>,
    /// A repository begins here: what is said above it is said of another one.
    begins_repository: bool,
    in_repository: bool,
}

impl Rules {
    /// Those that hold for a folder because of the folders that it is in.
    pub(super) fn above(files: &Files, folder: &Path) -> Option<Arc<Self>> {
        let mut rules = None;
        let above: Vec<&Path> = folder.ancestors().skip(1).collect();
        for path in above.into_iter().rev() {
            let has = |name: &str| files.look(&path.join(name)).is_ok();
            if !has(".git") && !has(".gitignore") && !has(".ignore") {
                continue;
            }
            let Ok(folder) = files.folder(path) else { continue };
            let names = [".git", ".gitignore", ".ignore"].map(OsString::from);
            let names =
                names.into_iter().filter(|name| folder.about(name).is_ok_and(|about| about.is_some()));
            let entries: Vec<_> = names.map(|name| (name, Kind::File)).collect();
            rules = Self::within(rules, &folder, &entries);
        }
        rules
    }

    /// Those that hold in a folder with these entries.
    pub(super) fn within(
        above: Option<Arc<Self>>,
        folder: &Folder,
        entries: &[(OsString, Kind)],
    ) -> Option<Arc<Self>> {
        let has = |wanted: &str| entries.iter().any(|(name, _)| name == wanted);
        let begins_repository = has(".git");
        let (git, own) = (has(".gitignore"), has(".ignore"));
        if !begins_repository && !git && !own {
            return above;
        }
        let in_repository = begins_repository || above.as_ref().is_some_and(|above| above.in_repository);
        let mut git = if git { lines(folder, Path::new(".gitignore")) } else { String::new() };
        if begins_repository {
            // Rules of the folder come later, and so win.
            git.insert_str(0, &format!("{}\n", lines(folder, Path::new(".git/info/exclude"))));
        }
        let own = if own { lines(folder, Path::new(".ignore")) } else { String::new() };
        Some(Arc::new(Self {
            above,
            git: parsed(folder.path(), &git),
            own: parsed(folder.path(), &own),
            begins_repository,
            in_repository,
        }))
    }

    pub(super) fn ignore(&self, path: &Path, is_folder: bool) -> bool {
        let (mut git, mut rules, mut in_this_one) = (Match::None, Some(self), self.in_repository);
        while let Some(level) = rules {
            let said = |rules: &Option<Gitignore>| {
                rules.as_ref().map_or(Match::None, |rules| rules.matched(path, is_folder).map(|_| ()))
            };
            // What is said for searches counts before what is said for git.
            let own = said(&level.own);
            if !own.is_none() {
                return own.is_ignore();
            }
            if in_this_one && git.is_none() {
                git = said(&level.git);
            }
            in_this_one &= !level.begins_repository;
            rules = level.above.as_deref();
        }
        git.is_ignore()
    }
}

fn lines(folder: &Folder, file: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok((opened, _)) = folder.read_below(file) {
        let _ = opened.take(MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn parsed(folder: &Path, text: &str) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.lines() {
        // One that makes no sense says nothing, as for git.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

/// By its name alone.
pub(super) fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}
