//! Retains the beginning and the end of an output while a program runs, in a fixed amount of memory.

use std::collections::VecDeque;

use super::text::{rest_of_character, whole_characters};

#[derive(Debug)]
pub(in crate::tools) struct HeadAndTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// The capacity of each in bytes.
    half: usize,
    size: u64,
}

/// The beginning and the end of an output, or all of it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::tools) struct Ends {
    pub(in crate::tools) first: Vec<u8>,
    /// `None` if `first` contains everything.
    pub(in crate::tools) last: Option<Vec<u8>>,
    pub(in crate::tools) left_out: u64,
}

impl HeadAndTail {
    pub(in crate::tools) fn new(bytes: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half: bytes.div_ceil(2), size: 0 }
    }

    /// The total number of bytes written.
    pub(in crate::tools) fn size(&self) -> u64 {
        self.size
    }

    pub(in crate::tools) fn push(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as u64;
        let (begin, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(begin);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// Returns at most `limit` bytes from `from`, or from the first retained byte after it.
    pub(in crate::tools) fn part(&self, from: u64, limit: usize) -> (u64, Vec<u8>) {
        let head = self.head.len() as u64;
        let tail = self.size - self.tail.len() as u64;
        if from < head {
            let bytes = self.head.iter().skip(from as usize).take(limit);
            return (from, bytes.copied().collect());
        }
        let from = from.clamp(tail, self.size);
        (from, self.tail.iter().skip((from - tail) as usize).take(limit).copied().collect())
    }

    /// Returns at most `limit` bytes, without splitting characters at the cuts.
    pub(in crate::tools) fn ends(&self, limit: usize) -> Ends {
        let retained = self.head.len() + self.tail.len();
        let bytes = || self.head.iter().chain(&self.tail).copied();
        if self.size == retained as u64 && retained <= limit {
            return Ends { first: bytes().collect(), last: None, left_out: 0 };
        }
        let half = (limit / 2).min(self.half);
        let mut first: Vec<u8> = bytes().take(half).collect();
        first.truncate(whole_characters(&first));
        let mut last: Vec<u8> = bytes().skip(retained - half).collect();
        last.drain(..rest_of_character(&last));
        let left_out = self.size - (first.len() + last.len()) as u64;
        Ends { first, last: Some(last), left_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result does not depend on how the output is split into blocks.
    #[test]
    fn head_and_tail_are_retained_and_the_middle_is_counted() {
        let all: Vec<u8> = (0..1000_u32).map(|n| b'a' + (n % 26) as u8).collect();
        for piece in [1, 7, 64, 99, 1000] {
            let mut retained = HeadAndTail::new(100);
            all.chunks(piece).for_each(|piece| retained.push(piece));
            assert_eq!(retained.size(), 1000);
            let ends = retained.ends(100);
            assert_eq!(
                (ends.first.as_slice(), ends.last.as_deref()),
                (&all[..50], Some(&all[950..])),
                "{piece}"
            );
            assert_eq!(ends.left_out, 900);
            let fewer = retained.ends(40);
            assert_eq!((fewer.first.as_slice(), fewer.last.as_deref()), (&all[..20], Some(&all[980..])));
            assert_eq!(retained.part(10, 5), (10, all[10..15].to_vec()));
            assert_eq!(retained.part(60, 5), (950, all[950..955].to_vec()), "from the first retained byte");
            assert_eq!(retained.part(2000, 5), (1000, vec![]));
        }
    }

    #[test]
    fn output_within_the_limit_is_complete() {
        for size in [0, 1, 49, 50, 51, 99, 100] {
            let all = vec![b'x'; size];
            let mut retained = HeadAndTail::new(100);
            retained.push(&all);
            assert_eq!(retained.ends(100), Ends { first: all.clone(), last: None, left_out: 0 }, "{size}");
            let cut = retained.ends(10);
            let shown = cut.first.len() + cut.last.as_ref().map_or(0, Vec::len);
            assert_eq!(shown as u64 + cut.left_out, size as u64, "{size}");
            assert!(shown <= 10, "{size}");
        }
    }

    #[test]
    fn characters_are_never_split() {
        let all = "€".repeat(100);
        let mut retained = HeadAndTail::new(50);
        retained.push(all.as_bytes());
        let ends = retained.ends(50);
        assert!(std::str::from_utf8(&ends.first).is_ok() && std::str::from_utf8(&ends.last.unwrap()).is_ok());
    }
}
