//! `glob`: finds files by name.

use std::path::Path;

use globset::{Glob, GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};
use plexus_tools::CallError;

use super::args::Args;
use super::listing::{FirstResults, kind_name, limit};
use super::report::{Answer, Entry, Output, Total, one_line};
use super::{FileCall, required_argument, wrong};
use crate::files::{FileKind, Walk, WalkEntry, WalkVisitor, walk};

/// The default number of results.
const DEFAULT_LISTED: usize = 500;
/// The maximum depth of a walk.
const MAX_DEPTH: usize = 1_000;

impl FileCall {
    pub(super) fn glob(&self, path: &Path, args: &Args) -> Result<Answer, CallError> {
        let pattern = required_argument(args, "pattern", args.pattern.as_deref())?;
        let glob = pattern_of("pattern", pattern, args.ignore_case.unwrap_or(false))?.compile_matcher();
        let folder = self.files.folder(path)?;
        let walk_options = walk_options(args, pattern);
        let found = FirstResults::new(limit(args, DEFAULT_LISTED));
        let stop = || self.cancel.is_cancelled();
        let walked =
            walk(&self.files, &folder, walk_options, &stop, || GlobVisitor { glob: &glob, found: &found });
        self.check_cancelled()?;
        let (all, count) = (found.sorted(), found.count());
        let mut text = String::new();
        let mut entries = Vec::new();
        for (relative, kind) in all {
            let path = relative.to_string_lossy().into_owned();
            text.push_str(&one_line(&path));
            text.push_str(if kind == FileKind::Folder { "/\n" } else { "\n" });
            entries.push(Entry {
                path,
                kind: kind_name(kind),
                bytes: None,
                modified_at: None,
                link_to: None,
            });
        }
        let truncated = count > entries.len() as u64;
        let mut output = Output { path: folder.path().display().to_string(), ..Output::default() };
        if truncated {
            output.notes.push(format!("{} of {count}; narrow the pattern, or raise `limit`", entries.len()));
        }
        if count == 0 {
            let hint = if walk_options.hidden && walk_options.ignored {
                ""
            } else {
                "; hidden and git-ignored files were skipped"
            };
            output.notes.push(format!("nothing matches {pattern:?}{hint}"));
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
}

/// The options of the walk. A pattern with a name that begins with a dot includes hidden files.
fn walk_options(args: &Args, pattern: &str) -> Walk {
    let dotted = pattern.split('/').any(|part| part.starts_with('.') && part.len() > 1);
    Walk {
        hidden: args.hidden.unwrap_or(dotted),
        ignored: args.ignored.unwrap_or(false),
        depth: args.depth.unwrap_or(MAX_DEPTH),
    }
}

/// Compiles a glob. A pattern without a slash matches names at any depth.
pub(super) fn pattern_of(field: &str, pattern: &str, ignore_case: bool) -> Result<Glob, CallError> {
    let plain = pattern.strip_prefix("./").unwrap_or(pattern);
    let full = if plain.contains('/') { plain.to_owned() } else { format!("**/{plain}") };
    let mut builder = GlobBuilder::new(full.strip_prefix('/').unwrap_or(&full));
    let built = builder.literal_separator(true).case_insensitive(ignore_case).build();
    built.map_err(|error| wrong(field, format!("{pattern:?} is not a valid path pattern: {}", error.kind())))
}

/// A file filter from a list of patterns.
#[derive(Debug)]
pub(super) struct FileFilter {
    included: Option<GlobSet>,
    unwanted: Option<GlobSet>,
}

impl FileFilter {
    pub(super) fn of(args: &Args) -> Result<Self, CallError> {
        let patterns = args.files.as_deref().unwrap_or_default();
        let set = |patterns: Vec<&str>| {
            if patterns.is_empty() {
                return Ok(None);
            }
            let mut set = GlobSetBuilder::new();
            for pattern in patterns {
                set.add(pattern_of("files", pattern, false)?);
            }
            set.build()
                .map(Some)
                .map_err(|error| wrong("files", format!("the patterns are too complex: {error}")))
        };
        Ok(Self {
            included: set(patterns
                .iter()
                .map(String::as_str)
                .filter(|pattern| !pattern.starts_with('!'))
                .collect())?,
            unwanted: set(patterns.iter().filter_map(|pattern| pattern.strip_prefix('!')).collect())?,
        })
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        self.included.as_ref().is_none_or(|set| set.is_match(path))
            && !self.unwanted.as_ref().is_some_and(|set| set.is_match(path))
    }
}

struct GlobVisitor<'a> {
    glob: &'a GlobMatcher,
    found: &'a FirstResults,
}

impl WalkVisitor for GlobVisitor<'_> {
    fn visit(&mut self, found: &WalkEntry<'_>) {
        if self.glob.is_match(found.relative) {
            self.found.add(found.relative, found.kind);
        }
    }
}
