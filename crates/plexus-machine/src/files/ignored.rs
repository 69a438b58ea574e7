//! Applies `.gitignore` and `.ignore` files to a walk, with the semantics of git and ripgrep.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{FileKind, Files, Folder};

/// The maximum number of bytes read from a rules file.
const MAX: u64 = 1 << 20;

/// The rules of a folder, linked to those of its parents.
#[derive(Debug)]
pub(super) struct IgnoreRules {
    above: Option<Arc<IgnoreRules>>,
    git: Option<Gitignore>,
    own_rules: Option<Gitignore>,
    /// A repository starts here. The git rules of its parents belong to another repository.
    begins_repository: bool,
    in_repository: bool,
}

impl IgnoreRules {
    /// The rules that a folder inherits from its parents.
    pub(super) fn inherited(files: &Files, folder: &Path) -> Option<Arc<Self>> {
        let mut rules = None;
        let above: Vec<&Path> = folder.ancestors().skip(1).collect();
        for path in above.into_iter().rev() {
            let has = |name: &str| files.open_handle(&path.join(name)).is_ok();
            if !has(".git") && !has(".gitignore") && !has(".ignore") {
                continue;
            }
            let Ok(folder) = files.folder(path) else { continue };
            let names = [".git", ".gitignore", ".ignore"].map(OsString::from);
            let names = names.into_iter().filter(|name| folder.stat(name).is_ok_and(|stat| stat.is_some()));
            let entries: Vec<_> = names.map(|name| (name, FileKind::File)).collect();
            rules = Self::for_folder(rules, &folder, &entries);
        }
        rules
    }

    /// The rules of a folder with these entries.
    pub(super) fn for_folder(
        above: Option<Arc<Self>>,
        folder: &Folder,
        entries: &[(OsString, FileKind)],
    ) -> Option<Arc<Self>> {
        let has = |expected: &str| entries.iter().any(|(name, _)| name == expected);
        let begins_repository = has(".git");
        let (git, own_rules) = (has(".gitignore"), has(".ignore"));
        if !begins_repository && !git && !own_rules {
            return above;
        }
        let in_repository = begins_repository || above.as_ref().is_some_and(|above| above.in_repository);
        let mut git = if git { lines(folder, Path::new(".gitignore")) } else { String::new() };
        if begins_repository {
            // The folder's own rules come later and therefore take precedence.
            git.insert_str(0, &format!("{}\n", lines(folder, Path::new(".git/info/exclude"))));
        }
        let own_rules = if own_rules { lines(folder, Path::new(".ignore")) } else { String::new() };
        Some(Arc::new(Self {
            above,
            git: parsed(folder.path(), &git),
            own_rules: parsed(folder.path(), &own_rules),
            begins_repository,
            in_repository,
        }))
    }

    pub(super) fn ignore(&self, path: &Path, is_folder: bool) -> bool {
        let (mut git, mut rules, mut in_this_one) = (Match::None, Some(self), self.in_repository);
        while let Some(level) = rules {
            let decision = |rules: &Option<Gitignore>| {
                rules.as_ref().map_or(Match::None, |rules| rules.matched(path, is_folder).map(|_| ()))
            };
            // `.ignore` takes precedence over `.gitignore`.
            let own_rules = decision(&level.own_rules);
            if !own_rules.is_none() {
                return own_rules.is_ignore();
            }
            if in_this_one && git.is_none() {
                git = decision(&level.git);
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
        // Invalid lines are skipped, as in git.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

/// Decides by the name alone.
pub(super) fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}
