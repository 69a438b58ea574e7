//! Parses a unified diff.
//!
//! Counts and line numbers are treated as hints: diffs written by hand often have them wrong, but their lines are
//! unambiguous. File names are taken as they are and checked later.

/// The changes of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct FilePatch {
    /// `None` for a new file.
    pub(super) old: Option<String>,
    /// `None` for a removed file.
    pub(super) new: Option<String>,
    /// The new permissions.
    pub(super) mode: Option<u32>,
    pub(super) is_rename: bool,
    pub(super) is_copy: bool,
    pub(super) hunks: Vec<Hunk>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Hunk {
    /// The line it starts at, counted from 1, if stated.
    pub(super) at: Option<usize>,
    pub(super) lines: Vec<HunkLine>,
    /// The line of the diff that it starts on.
    pub(super) written_at: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HunkLine {
    pub(super) kind: LineKind,
    /// The text without its line ending.
    pub(super) text: String,
    /// The last line of the file, without a line ending.
    pub(super) is_unended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Context,
    Remove,
    Add,
}

/// A parse error with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PatchSyntaxError(pub(super) String);

struct Reader<'p> {
    lines: Vec<&'p str>,
    at: usize,
}

pub(super) fn parse(text: &str) -> Result<Vec<FilePatch>, PatchSyntaxError> {
    let mut reader = Reader { lines: text.split('\n').collect(), at: 0 };
    if reader.lines.last() == Some(&"") {
        reader.lines.pop();
    }
    let mut files = Vec::new();
    while let Some(line) = reader.line() {
        if let Some(names) = line.strip_prefix("diff --git ") {
            let names = names.trim_end_matches('\r').to_owned();
            reader.at += 1;
            files.push(reader.git(&names)?);
        } else if reader.begins_file() {
            let mut file = FilePatch::default();
            reader.names(&mut file)?;
            reader.hunks(&mut file)?;
            files.push(file);
        } else if line.starts_with("@@") && files.is_empty() {
            // Hunks without file names; the call names the file.
            let mut file =
                FilePatch { old: Some(String::new()), new: Some(String::new()), ..FilePatch::default() };
            reader.hunks(&mut file)?;
            files.push(file);
        } else if line.starts_with("@@") {
            return Err(reader.wrong("a hunk without a file name"));
        } else {
            // Mails and commits have text around a diff.
            reader.at += 1;
        }
    }
    match files.is_empty() {
        true => Err(PatchSyntaxError(
            "it has no hunks: a unified diff has lines `--- a/NAME`, `+++ b/NAME` and `@@ -1,2 +1,3 @@`"
                .to_owned(),
        )),
        false => Ok(files),
    }
}

impl<'p> Reader<'p> {
    fn line(&self) -> Option<&'p str> {
        self.lines.get(self.at).copied()
    }

    fn begins_file(&self) -> bool {
        let next = self.lines.get(self.at + 1);
        self.line().is_some_and(|line| line.starts_with("--- "))
            && next.is_some_and(|line| line.starts_with("+++ "))
    }

    fn wrong(&self, what: &str) -> PatchSyntaxError {
        PatchSyntaxError(format!("line {}: {what}", self.at + 1))
    }

    /// Parses the extended header lines of git, and the hunks that follow.
    fn git(&mut self, names: &str) -> Result<FilePatch, PatchSyntaxError> {
        let mut file = FilePatch::default();
        let (mut is_new, mut is_removed) = (false, false);
        while let Some(line) = self.line() {
            let line = line.trim_end_matches('\r');
            let mode = |text: &str| u32::from_str_radix(text.trim(), 8);
            if let Some(text) = line.strip_prefix("new file mode ") {
                is_new = true;
                file.mode = mode(text).ok();
            } else if line.starts_with("deleted file mode ") {
                is_removed = true;
            } else if let Some(text) = line.strip_prefix("new mode ") {
                file.mode = mode(text).ok();
            } else if let Some(name) = line.strip_prefix("rename from ").or(line.strip_prefix("copy from ")) {
                file.is_copy = line.starts_with("copy");
                file.is_rename = !file.is_copy;
                file.old = Some(unquoted(name));
            } else if let Some(name) = line.strip_prefix("rename to ").or(line.strip_prefix("copy to ")) {
                file.new = Some(unquoted(name));
            } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
                return Err(
                    self.wrong("a change of a binary file, which cannot be applied; write the file instead")
                );
            } else if !["index ", "old mode ", "similarity ", "dissimilarity "]
                .iter()
                .any(|known| line.starts_with(known))
            {
                break;
            }
            self.at += 1;
        }
        let (begins, mut named) = (self.at, FilePatch::default());
        if self.begins_file() {
            self.names(&mut named)?;
            let is_own = match (&file.old, &file.new, same_name(names)) {
                (Some(_), Some(_), _) => (&named.old, &named.new) == (&file.old, &file.new),
                (_, _, Some(name)) => named.old.as_ref() == Some(&name) || named.new.as_ref() == Some(&name),
                _ => true,
            };
            if is_own {
                (file.old, file.new) = (named.old, named.new);
                self.hunks(&mut file)?;
                return self.checked(file);
            }
            // The names belong to the next file.
            self.at = begins;
        }
        if file.old.is_none() || file.new.is_none() {
            // Without hunks, only this line contains the name.
            let name = same_name(names).ok_or_else(|| self.wrong("the file name is ambiguous"))?;
            file.old = (!is_new).then(|| name.clone());
            file.new = (!is_removed).then_some(name);
        }
        self.checked(file)
    }

    fn checked(&self, file: FilePatch) -> Result<FilePatch, PatchSyntaxError> {
        if file.mode.is_some_and(|mode| mode & 0o170_000 == 0o120_000 || mode & 0o170_000 == 0o160_000) {
            return Err(self.wrong("a symlink or a submodule, which a patch cannot create"));
        }
        Ok(file)
    }

    fn names(&mut self, file: &mut FilePatch) -> Result<(), PatchSyntaxError> {
        let (old, new) = (self.lines[self.at], self.lines[self.at + 1]);
        let name = |line: &str| {
            let text = line.get(4..).unwrap_or_default().trim_end_matches('\r');
            // Some tools append a timestamp after a tab.
            let text = unquoted(text.split('\t').next().unwrap_or_default().trim_end());
            (text != "/dev/null").then_some(text)
        };
        let (old, new) = (name(old), name(new));
        if old.is_none() && new.is_none() {
            return Err(self.wrong("both names are /dev/null"));
        }
        // Prefixes occur on both names or on none; `/dev/null` has none.
        let has = |name: &Option<String>, prefixes: [&str; 2]| {
            name.as_ref().is_none_or(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        };
        let is_prefixed = has(&old, ["a/", "i/"]) && has(&new, ["b/", "w/"]);
        let plain = |name: String| if is_prefixed { name[2..].to_owned() } else { name };
        (file.old, file.new) = (old.map(plain), new.map(plain));
        self.at += 2;
        Ok(())
    }

    fn hunks(&mut self, file: &mut FilePatch) -> Result<(), PatchSyntaxError> {
        while self.line().is_some_and(|line| line.starts_with("@@")) {
            file.hunks.push(self.hunk()?);
        }
        Ok(())
    }

    fn hunk(&mut self) -> Result<Hunk, PatchSyntaxError> {
        let header = self.line().unwrap_or_default();
        let numbers = numbers(header);
        let mut hunk = Hunk { at: numbers.map(|(at, ..)| at), written_at: self.at + 1, ..Hunk::default() };
        let (mut old_left, mut new_left) =
            numbers.map_or((usize::MAX, usize::MAX), |(_, old, new)| (old, new));
        self.at += 1;
        while let Some(line) = self.line() {
            let is_done = old_left == 0 && new_left == 0;
            let counted = numbers.is_some() && !is_done;
            let kind = match line.as_bytes().first() {
                Some(b'\\') => {
                    if let Some(last) = hunk.lines.last_mut() {
                        last.is_unended = true;
                    }
                    self.at += 1;
                    continue;
                }
                Some(b'@') => break,
                _ if line.starts_with("diff --git ") => break,
                // A removed line can look like the header of the next file.
                Some(b'-') if !counted && self.begins_file() => break,
                Some(b' ') if !is_done || self.has_more_lines() => LineKind::Context,
                // The signature separator of a mail.
                Some(b'-') if is_done && line.trim_end() == "--" => break,
                Some(b'-') => LineKind::Remove,
                Some(b'+') => LineKind::Add,
                // An empty context line whose leading space was lost.
                None | Some(b'\r') if !is_done && self.has_more_lines() => LineKind::Context,
                _ => break,
            };
            hunk.lines.push(HunkLine {
                kind,
                text: line.get(1..).unwrap_or_default().to_owned(),
                is_unended: false,
            });
            old_left = old_left.saturating_sub(usize::from(kind != LineKind::Add));
            new_left = new_left.saturating_sub(usize::from(kind != LineKind::Remove));
            self.at += 1;
        }
        if hunk.lines.is_empty() {
            return Err(PatchSyntaxError(format!("line {}: a hunk without lines", hunk.written_at)));
        }
        Ok(hunk)
    }

    /// Whether more lines of the hunk follow, as opposed to only trailing blank lines.
    fn has_more_lines(&self) -> bool {
        let rest = &self.lines[self.at + 1..];
        let next = rest.iter().find(|line| !line.trim_end().is_empty());
        next.is_some_and(|line| matches!(line.as_bytes()[0], b' ' | b'+' | b'-' | b'\\'))
    }
}

/// Parses `@@ -12,3 +12,4 @@`: the start line and the number of lines on each side.
fn numbers(header: &str) -> Option<(usize, usize, usize)> {
    let mut words = header.strip_prefix("@@ -")?.split(' ');
    let pair = |text: &str| {
        let (at, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((at.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
    };
    let (at, old) = pair(words.next()?)?;
    let (_, new) = pair(words.next()?.strip_prefix('+')?)?;
    Some((at, old, new))
}

/// The name in `a/NAME b/NAME`, if both are equal.
fn same_name(names: &str) -> Option<String> {
    let middle = names.len() / 2;
    let (old, new) = (names.get(..middle)?, names.get(middle + 1..)?);
    let (old, new) = (unquoted(old), unquoted(new));
    let (old, new) = (old.strip_prefix("a/")?, new.strip_prefix("b/")?);
    (old == new).then(|| old.to_owned())
}

/// Unquotes a name that git has quoted in C style.
fn unquoted(name: &str) -> String {
    let Some(inner) = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return name.to_owned();
    };
    let (mut bytes, mut rest) = (Vec::new(), inner.as_bytes());
    while let [first, more @ ..] = rest {
        rest = more;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let octal = rest.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = &rest[3..];
        } else if let [escaped, more @ ..] = rest {
            bytes.push(match escaped {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                other => *other,
            });
            rest = more;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
