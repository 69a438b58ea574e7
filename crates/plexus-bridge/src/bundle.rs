//! Renders the identity files of a workspace for each agent: the agent's role, its user, and its memory.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use plexus_kit::syntax::read_bounded;

/// Longest single file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The names of identity files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundle {
    pub folder: PathBuf,
    /// Names and texts, in rendering order.
    pub files: Vec<(String, String)>,
    /// Omitted files, with the reason.
    pub omitted: Vec<String>,
}

impl Bundle {
    /// Reads these files of a folder; missing ones are skipped.
    #[must_use]
    pub fn read(folder: &Path, names: &[String]) -> Self {
        let mut bundle = Self { folder: folder.to_owned(), ..Self::default() };
        for name in names {
            let path = folder.join(name);
            let Ok(metadata) = path.symlink_metadata() else { continue };
            // Anyone who can write it could instruct all agents of this user.
            if metadata.is_file() && metadata.permissions().mode() & 0o002 != 0 {
                bundle.omitted.push(format!("{} is world-writable; run chmod o-w on it", path.display()));
                continue;
            }
            if metadata.is_file() && metadata.nlink() > 1 {
                bundle.omitted.push(format!("{} has other names (hard links)", path.display()));
                continue;
            }
            match read_bounded(&path, MAX_FILE_BYTES) {
                Ok(text) => {
                    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
                    if !text.trim().is_empty() {
                        bundle.files.push((name.clone(), text.trim().to_owned()));
                    }
                }
                Err((why, _)) => bundle.omitted.push(format!("{} {why}", path.display())),
            }
        }
        bundle
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Renders the bundle in at most this many bytes. Files that do not fit are cut at a line end, with a note; space
    /// that short files leave goes to the others.
    #[must_use]
    pub fn render(&self, max_bytes: usize) -> String {
        let mut sections = Vec::new();
        let mut remaining_bytes = max_bytes;
        // Shortest first, so the space they leave is known.
        let mut order: Vec<usize> = (0..self.files.len()).collect();
        order.sort_by_key(|&index| self.files[index].1.len());
        for (done, &index) in order.iter().enumerate() {
            let share = remaining_bytes / (order.len() - done);
            let section = self.section(index, share.saturating_sub(2));
            remaining_bytes = remaining_bytes.saturating_sub(section.len() + 2);
            sections.push((index, section));
        }
        sections.sort_by_key(|(index, _)| *index);
        let sections: Vec<String> =
            sections.into_iter().map(|(_, text)| text).filter(|text| !text.is_empty()).collect();
        sections.join("\n\n")
    }

    fn section(&self, index: usize, max_bytes: usize) -> String {
        let (name, text) = &self.files[index];
        let title = if text.starts_with('#') { String::new() } else { format!("## {}\n\n", title(name)) };
        let whole = format!("{title}{text}");
        if whole.len() <= max_bytes {
            return whole;
        }
        let note = format!("\n\n(Truncated; the full text is in {}.)", self.folder.join(name).display());
        let Some(remaining_bytes) = max_bytes.checked_sub(note.len()) else { return String::new() };
        let mut end = remaining_bytes.min(whole.len());
        while !whole.is_char_boundary(end) {
            end -= 1;
        }
        // At a line end, unless there is only one line.
        let end = whole[..end].rfind('\n').filter(|line| *line > end / 2).unwrap_or(end);
        format!("{}{note}", whole[..end].trim_end())
    }
}

/// The heading for a file that does not start with one.
fn title(name: &str) -> String {
    match name {
        "SOUL.md" => "Character".to_owned(),
        "IDENTITY.md" => "Identity".to_owned(),
        "USER.md" => "The person you work for".to_owned(),
        "TOOLS.md" => "Tools".to_owned(),
        "MEMORY.md" => "Memory".to_owned(),
        other => other.trim_end_matches(".md").to_owned(),
    }
}
