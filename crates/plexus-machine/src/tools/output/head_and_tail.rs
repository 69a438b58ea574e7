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
mod tests;
