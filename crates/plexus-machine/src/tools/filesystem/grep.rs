//! `grep`: searches lines in files with ripgrep's search engine.
//!
//! Every file is opened relative to the folder of the walk without following symlinks. The first lines in path order
//! are shown, whichever thread found them; the totals count all of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use plexus_tools::CallError;
use tokio_util::sync::CancellationToken;

use super::args::{Args, Show};
use super::glob::FileFilter;
use super::report::{Answer, Matched, MatchedLine, Output, Total, one_line};
use super::{FileCall, required_argument, wrong};
use crate::files::{FileKind, Files, Walk, WalkEntry, WalkVisitor, walk};

/// The default and maximum number of lines in an answer.
const DEFAULT_LINES: usize = 500;
const MAX_LINES: usize = 5_000;
/// The maximum size in bytes of all lines in an answer, and of one line.
const MAX_ANSWER_BYTES: usize = 200 << 10;
const MAX_LINE_BYTES: usize = 400;
/// The memory limit of one search in one file. A file with a longer line, or with `multiline` a larger file, is
/// skipped.
const MAX_HEAP: usize = 64 << 20;
/// The maximum size of a compiled regular expression.
const MAX_REGEX: usize = 8 << 20;

impl FileCall {
    pub(super) fn grep(&self, path: &Path, args: &Args) -> Result<Answer, CallError> {
        let matcher = matcher(args)?;
        let selected = FileFilter::of(args)?;
        let show = args.show.unwrap_or_default();
        let lines = args.limit.map_or(DEFAULT_LINES, |limit| limit as usize).min(MAX_LINES);
        let results = Results { shown: Mutex::default(), lines };
        let make = || Search {
            call: self,
            matcher: matcher.clone(),
            searcher: searcher(args),
            selected: &selected,
            show,
            results: &results,
            searched: 0,
            matches: 0,
            files: 0,
            unread: 0,
        };
        let handle = self.files.open_handle(path)?;
        let real = handle.path().to_owned();
        let (visitors, closed) = if handle.kind() == FileKind::File {
            let mut search = make();
            let file = handle.read()?;
            let name = real.file_name().map(PathBuf::from).unwrap_or_default();
            search.search(&name, &file);
            (vec![search], 0)
        } else {
            let folder = handle.folder()?;
            let how = Walk {
                hidden: args.hidden.unwrap_or(false),
                ignored: args.ignored.unwrap_or(false),
                depth: args.depth.unwrap_or(1_000),
            };
            let stop = || self.cancel.is_cancelled();
            let walked = walk(&self.files, &folder, how, &stop, make);
            (walked.visitors, walked.closed)
        };
        self.check_cancelled()?;
        let sum = |count: fn(&Search<'_>) -> u64| visitors.iter().map(count).sum::<u64>();
        let totals = (sum(|s| s.files), sum(|s| s.matches), sum(|s| s.searched), sum(|s| s.unread));
        drop(visitors);
        Ok(answer(&real, results, show, totals, closed))
    }
}

fn matcher(args: &Args) -> Result<RegexMatcher, CallError> {
    let pattern = required_argument(args, "pattern", args.pattern.as_deref())?;
    let multiline = args.multiline.unwrap_or(false);
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .unicode(true)
        .case_insensitive(args.ignore_case.unwrap_or(false))
        .word(args.word.unwrap_or(false))
        .fixed_strings(args.fixed.unwrap_or(false))
        .size_limit(MAX_REGEX)
        .dfa_size_limit(MAX_REGEX)
        .nest_limit(100)
        .dot_matches_new_line(false);
    if !multiline {
        builder.line_terminator(Some(b'\n')).ban_byte(Some(0));
    }
    builder.build(pattern).map_err(|error| {
        let fixed = if args.fixed.unwrap_or(false) { "" } else { "; `fixed` treats it as plain text" };
        wrong("pattern", format!("{error}{fixed}"))
    })
}

fn searcher(args: &Args) -> Searcher {
    let context = match args.show.unwrap_or_default() {
        Show::Lines => args.context.unwrap_or(0),
        Show::Files | Show::Count => 0,
    };
    SearcherBuilder::new()
        .line_number(args.show.unwrap_or_default() == Show::Lines)
        .before_context(context)
        .after_context(context)
        .multi_line(args.multiline.unwrap_or(false))
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_HEAP))
        .build()
}

/// The searcher and the counters of one thread.
struct Search<'a> {
    call: &'a FileCall,
    matcher: RegexMatcher,
    searcher: Searcher,
    selected: &'a FileFilter,
    show: Show,
    results: &'a Results,
    searched: u64,
    matches: u64,
    files: u64,
    unread: u64,
}

impl WalkVisitor for Search<'_> {
    fn visit(&mut self, found: &WalkEntry<'_>) {
        if found.kind != FileKind::File || !self.selected.has(found.relative) {
            return;
        }
        let files: &Files = &self.call.files;
        match files.read_walked(found) {
            Ok(file) => self.search(found.relative, &file),
            // The file is denied, was removed, or was replaced.
            Err(_) => self.unread += 1,
        }
    }
}

impl Search<'_> {
    fn search(&mut self, relative: &Path, file: &File) {
        self.searched += 1;
        let mut sink = FileMatches {
            show: self.show,
            matches: 0,
            lines: Vec::new(),
            bytes: 0,
            max_results: self.results.lines,
        };
        let reader = CancellableReader { file, cancel: &self.call.cancel };
        let searched = self.searcher.search_reader(&self.matcher, reader, &mut sink);
        if searched.is_err() {
            self.unread += 1;
        }
        if sink.matches > 0 {
            self.files += 1;
            self.matches += sink.matches;
            self.results.add(relative, sink);
        }
    }
}

/// Reads until the call is cancelled.
struct CancellableReader<'a> {
    file: &'a File,
    cancel: &'a CancellationToken,
}

impl Read for CancellableReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(std::io::Error::other("cancelled"));
        }
        self.file.read(buffer)
    }
}

/// The matches in one file.
#[derive(Debug)]
struct FileMatches {
    show: Show,
    matches: u64,
    lines: Vec<MatchedLine>,
    bytes: usize,
    max_results: usize,
}

impl FileMatches {
    fn add(&mut self, bytes: &[u8], first: Option<u64>, context: bool) {
        if self.show != Show::Lines || self.lines.len() >= self.max_results || self.bytes >= MAX_ANSWER_BYTES
        {
            return;
        }
        for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let mut text = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE_BYTES)]).into_owned();
            if line.len() > MAX_LINE_BYTES {
                text.push_str(&format!(" [… {} bytes more]", line.len() - MAX_LINE_BYTES));
            }
            self.bytes += text.len() + 40;
            self.lines.push(MatchedLine { line: first.unwrap_or(0) + number as u64, text, context });
        }
    }
}

impl Sink for FileMatches {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.matches += 1;
        self.add(found.bytes(), found.line_number(), false);
        Ok(self.show != Show::Files)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        self.add(context.bytes(), context.line_number(), true);
        Ok(true)
    }
}

/// The results of all threads, bounded by what can be shown.
#[derive(Debug)]
struct Results {
    shown: Mutex<ShownMatches>,
    lines: usize,
}

#[derive(Debug, Default)]
struct ShownMatches {
    files: BTreeMap<PathBuf, FileMatches>,
    lines: usize,
    bytes: usize,
}

impl Results {
    fn add(&self, relative: &Path, lines: FileMatches) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = shown.lines > self.lines || shown.bytes > MAX_ANSWER_BYTES;
        if is_full && shown.files.last_key_value().is_some_and(|(last, _)| last.as_path() < relative) {
            return;
        }
        shown.lines += lines.lines.len().max(1);
        shown.bytes += lines.bytes + relative.as_os_str().len() + 40;
        shown.files.insert(relative.to_owned(), lines);
        // Drop the last file while the others fill the answer.
        while let Some((path, last)) = shown.files.last_key_value() {
            let (lines, bytes) = (last.lines.len().max(1), last.bytes + path.as_os_str().len() + 40);
            if shown.lines - lines <= self.lines && shown.bytes - bytes <= MAX_ANSWER_BYTES
                || shown.files.len() == 1
            {
                break;
            }
            shown.files.pop_last();
            shown.lines -= lines;
            shown.bytes -= bytes;
        }
    }
}

fn answer(
    real: &Path,
    results: Results,
    show: Show,
    (files, matches, searched, unread): (u64, u64, u64, u64),
    closed: usize,
) -> Answer {
    let max_results = results.lines;
    let shown = results.shown.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut text, mut all, mut left, mut lines_shown) = (String::new(), Vec::new(), max_results, 0);
    for (path, mut found) in shown.files {
        if left == 0 {
            break;
        }
        let path = path.to_string_lossy().into_owned();
        let name = one_line(&path);
        found.lines.truncate(left);
        left -= found.lines.len().max(1).min(left);
        match show {
            Show::Files => text.push_str(&format!("{name}\n")),
            Show::Count => text.push_str(&format!("{name}:{}\n", found.matches)),
            Show::Lines => {
                text.push_str(&format!("{name}\n"));
                let mut last = None;
                for line in &found.lines {
                    if last.is_some_and(|last| last + 1 < line.line)
                        && found.lines.iter().any(|line| line.context)
                    {
                        text.push_str("  --\n");
                    }
                    last = Some(line.line);
                    let mark = if line.context { '-' } else { ':' };
                    text.push_str(&format!("{:>6}{mark} {}\n", line.line, line.text));
                }
                lines_shown += found.lines.iter().filter(|line| !line.context).count() as u64;
            }
        }
        all.push(Matched { path, matches: found.matches, lines: found.lines });
    }
    let truncated = (all.len() as u64) < files || show == Show::Lines && lines_shown < matches;
    let mut output = Output { path: real.display().to_string(), ..Output::default() };
    output.notes.push(match show {
        Show::Files => format!("{files} files with a match, {searched} searched"),
        _ => format!("{matches} matching lines in {files} files, {searched} searched"),
    });
    if truncated {
        output.notes.push(
            "the results are truncated: narrow the search with `files` or the pattern, or raise `limit`"
                .to_owned(),
        );
    }
    if unread > 0 {
        output.notes.push(format!("{unread} files could not be searched completely"));
    }
    output.total = Some(Total {
        entries: files,
        matches: Some(matches),
        searched: Some(searched),
        truncated,
        closed: (closed > 0).then_some(closed as u64),
    });
    output.files = Some(all);
    Answer::new(text, output)
}
