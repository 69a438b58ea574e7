//! Markers by which the remote `sh` reports that it is ready and how the command ended.
//!
//! Both markers are lines of its standard error. The second contains a random nonce, so that no command prints it by
//! accident. Markers are removed from the output that the caller sees, however it is split into blocks.

const READY: &[u8] = b"plexus-ready ";
/// The maximum length of a marker after its prefix.
const REST: usize = 24;

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
pub(super) struct Marks {
    closing: Vec<u8>,
    held: Vec<u8>,
    ended: Option<MarkedEnd>,
}

impl Marks {
    pub(super) fn new(nonce: &str) -> Self {
        Self { closing: format!("\n{nonce} ").into_bytes(), held: Vec::new(), ended: None }
    }

    pub(super) fn ended(&self) -> Option<MarkedEnd> {
        self.ended
    }

    /// Before the command starts: passes other output on, and returns the pid of the `sh` once it is reported.
    pub(super) fn opening(&mut self, bytes: &[u8], rest: &mut impl FnMut(&[u8])) -> Option<u32> {
        self.held.extend_from_slice(bytes);
        let (before, text) = self.take(READY, rest)?;
        rest(&before);
        text.parse().ok()
    }

    /// While the command runs: passes other output on.
    pub(super) fn closing(&mut self, bytes: &[u8], rest: &mut impl FnMut(&[u8])) {
        self.held.extend_from_slice(bytes);
        if self.ended.is_none() {
            let mark = self.closing.clone();
            let Some((before, text)) = self.take(&mark, rest) else { return };
            rest(&before);
            self.ended = match text.as_str() {
                "cwd" => Some(MarkedEnd::NoFolder),
                code => code.parse().ok().map(MarkedEnd::Code),
            };
        }
        self.rest(rest);
    }

    /// At the end of the stream: passes on the remaining output.
    pub(super) fn rest(&mut self, rest: &mut impl FnMut(&[u8])) {
        rest(&std::mem::take(&mut self.held));
    }

    /// Returns the output before a complete marker, and the marker's text. Without one, passes on everything that
    /// cannot be part of a marker.
    fn take(&mut self, mark: &[u8], rest: &mut impl FnMut(&[u8])) -> Option<(Vec<u8>, String)> {
        let found = self.held.windows(mark.len()).position(|window| window == mark);
        if let Some(at) = found {
            let after = &self.held[at + mark.len()..];
            let end = after.iter().position(|byte| *byte == b'\n');
            if end.is_none() && after.len() <= REST {
                return None;
            }
            let end = end.unwrap_or(0);
            let text = String::from_utf8_lossy(&after[..end]).into_owned();
            let whole: Vec<u8> =
                self.held.drain(..(at + mark.len() + end + 1).min(self.held.len())).collect();
            return Some((whole[..at].to_vec(), text));
        }
        let begun =
            (1..mark.len().min(self.held.len() + 1)).rev().find(|len| self.held.ends_with(&mark[..*len]));
        let given: Vec<u8> = self.held.drain(..self.held.len() - begun.unwrap_or(0)).collect();
        rest(&given);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads in blocks of the given size.
    fn read(said: &[u8], size: usize) -> (Option<u32>, Vec<u8>, Option<MarkedEnd>) {
        let (mut marks, mut seen, mut number) = (Marks::new("n0nce"), Vec::new(), None);
        for block in said.chunks(size) {
            match number {
                None => number = marks.opening(block, &mut |bytes| seen.extend_from_slice(bytes)),
                Some(_) => marks.closing(block, &mut |bytes| seen.extend_from_slice(bytes)),
            }
        }
        // Output in the same block as the opening marker is processed with the next block.
        marks.closing(b"", &mut |bytes| seen.extend_from_slice(bytes));
        marks.rest(&mut |bytes| seen.extend_from_slice(bytes));
        (number, seen, marks.ended())
    }

    #[test]
    fn markers_are_removed_for_any_block_size() {
        let said = b"motd\nplexus-ready 4711\nerr\n\nn0nc\nno newline\nn0nce 3\nfrom behind";
        for size in 1..said.len() {
            let (number, seen, ended) = read(said, size);
            assert_eq!(number, Some(4711), "{size}");
            assert_eq!(String::from_utf8_lossy(&seen), "motd\nerr\n\nn0nc\nno newlinefrom behind", "{size}");
            assert_eq!(ended, Some(MarkedEnd::Code(3)), "{size}");
        }
    }

    #[test]
    fn output_without_markers_is_unchanged() {
        for size in 1..20 {
            assert_eq!(
                read(b"This account is closed.\nplexus-read", size).1,
                b"This account is closed.\nplexus-read"
            );
        }
        let (number, seen, ended) = read(b"plexus-ready 7\n\nn0nce cwd\n", 5);
        assert_eq!((number, seen.as_slice(), ended), (Some(7), &b""[..], Some(MarkedEnd::NoFolder)));
    }
}
