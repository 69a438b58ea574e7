//! `diff`: compares two files, or a file and a text.

use std::path::Path;
use std::time::Duration;

use plexus_tools::CallError;
use similar::TextDiff;

use super::args::Args;
use super::content::Encoding;
use super::report::{Answer, Output, bounded};
use super::{FileCall, wrong};

/// The time after which the comparison stops looking for the shortest diff.
const DIFF_TIMEOUT: Duration = Duration::from_secs(3);
const MAX_DIFF_BYTES: usize = 200 << 10;

impl FileCall {
    pub(super) fn diff(&self, path: &Path, args: &Args) -> Result<Answer, CallError> {
        let (handle, file) = self.files.read(path)?;
        let old = self.read_whole(handle.path(), &file)?;
        let old_name = handle.path().display().to_string();
        let (new, new_name) = match (&args.to, &args.text) {
            (Some(_), None) => {
                let (other, file) = self.files.read(&self.to(args)?)?;
                (self.read_whole(other.path(), &file)?, other.path().display().to_string())
            }
            (None, Some(text)) => (text.clone().into_bytes(), "text".to_owned()),
            _ => return Err(wrong("to", "action \"diff\" needs either `to` or `text`, not both")),
        };
        let same = old == new;
        let mut output = Output { path: old_name.clone(), same: Some(same), ..Output::default() };
        let is_binary = |bytes: &[u8]| matches!(Encoding::of(bytes), Encoding::Binary(_));
        let text = match (same, is_binary(&old) || is_binary(&new)) {
            (true, _) => "The contents are identical.\n".to_owned(),
            (false, true) => {
                format!("The contents differ: {} and {} bytes of binary data.\n", old.len(), new.len())
            }
            (false, false) => {
                let diff = unified(&old, &new, &old_name, &new_name, args.context.unwrap_or(3));
                output.diff = Some(diff.clone());
                diff
            }
        };
        Ok(Answer::new(text, output))
    }
}

/// A unified diff, truncated to the maximum size of an answer.
pub(super) fn unified(old: &[u8], new: &[u8], old_name: &str, new_name: &str, context: usize) -> String {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(old.as_ref(), new.as_ref());
    let text = diff.unified_diff().context_radius(context).header(old_name, new_name).to_string();
    bounded(text, MAX_DIFF_BYTES)
}
