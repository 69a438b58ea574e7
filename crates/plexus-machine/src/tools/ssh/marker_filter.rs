//! Markers by which the remote `sh` reports that it is ready and how the command ended.
//!
//! Both markers are lines of its standard error. The second contains a random nonce, so that no command prints it by
//! accident. Markers are removed from the output that the caller sees, however it is split into blocks.

const READY: &[u8] = b"plexus-ready ";
/// The maximum length of a marker after its prefix.
const MAX_MARKER: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkedEnd {
    Code(i32),
    /// The command did not start, because its folder could not be entered.
    NoFolder,
}

impl MarkedEnd {
    pub(super) fn code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code),
            Self::NoFolder => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct MarkerFilter {
    closing: Vec<u8>,
    pending: Vec<u8>,
    ended: Option<MarkedEnd>,
}

impl MarkerFilter {
    pub(super) fn new(nonce: &str) -> Self {
        Self { closing: format!("\n{nonce} ").into_bytes(), pending: Vec::new(), ended: None }
    }

    pub(super) fn ended(&self) -> Option<MarkedEnd> {
        self.ended
    }

    /// Before the command starts: passes other output on, and returns the pid of the `sh` once it is reported.
    pub(super) fn read_opening(&mut self, bytes: &[u8], rest: &mut impl FnMut(&[u8])) -> Option<u32> {
        self.pending.extend_from_slice(bytes);
        let (before, text) = self.take_marker(READY, rest)?;
        rest(&before);
        text.parse().ok()
    }

    /// While the command runs: passes other output on.
    pub(super) fn read_closing(&mut self, bytes: &[u8], rest: &mut impl FnMut(&[u8])) {
        self.pending.extend_from_slice(bytes);
        if self.ended.is_none() {
            let mark = self.closing.clone();
            let Some((before, text)) = self.take_marker(&mark, rest) else { return };
            rest(&before);
            self.ended = match text.as_str() {
                "cwd" => Some(MarkedEnd::NoFolder),
                code => code.parse().ok().map(MarkedEnd::Code),
            };
        }
        self.flush(rest);
    }

    /// At the end of the stream: passes on the remaining output.
    pub(super) fn flush(&mut self, rest: &mut impl FnMut(&[u8])) {
        rest(&std::mem::take(&mut self.pending));
    }

    /// Returns the output before a complete marker, and the marker's text. Without one, passes on everything that
    /// cannot be part of a marker.
    fn take_marker(&mut self, mark: &[u8], rest: &mut impl FnMut(&[u8])) -> Option<(Vec<u8>, String)> {
        let found = self.pending.windows(mark.len()).position(|window| window == mark);
        if let Some(at) = found {
            let after = &self.pending[at + mark.len()..];
            let end = after.iter().position(|byte| *byte == b'\n');
            if end.is_none() && after.len() <= MAX_MARKER {
                return None;
            }
            let end = end.unwrap_or(0);
            let text = String::from_utf8_lossy(&after[..end]).into_owned();
            let whole: Vec<u8> =
                self.pending.drain(..(at + mark.len() + end + 1).min(self.pending.len())).collect();
            return Some((whole[..at].to_vec(), text));
        }
        let begun = (1..mark.len().min(self.pending.len() + 1))
            .rev()
            .find(|len| self.pending.ends_with(&mark[..*len]));
        let passed_on: Vec<u8> = self.pending.drain(..self.pending.len() - begun.unwrap_or(0)).collect();
        rest(&passed_on);
        None
    }
}

#[cfg(test)]
mod tests;
