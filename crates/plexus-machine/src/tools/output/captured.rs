//! Retains the beginning and the end of a program's output in a fixed amount of memory.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::Serialize;

use super::text::{Decoded, rest_of_character, whole_characters};

/// The beginning and the end of an output.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Excerpt {
    /// The text; bytes that are not valid UTF-8 are replaced.
    pub(in crate::tools) text: String,
    /// Total size.
    pub(in crate::tools) bytes: u64,
    /// Some of the output is omitted, between the beginning and the end.
    pub(in crate::tools) truncated: bool,
    /// The bytes shown, if they are not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::tools) base64: Option<String>,
}

#[derive(Debug)]
pub(in crate::tools) struct Captured {
    /// The number of bytes retained of the beginning, and as many of the end.
    each: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    size: u64,
}

impl Captured {
    pub(in crate::tools) fn new(each: usize) -> Self {
        Self { each, head: Vec::new(), tail: VecDeque::new(), size: 0 }
    }

    pub(in crate::tools) fn push(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as u64;
        let head_bytes = (self.each - self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(head_bytes);
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.each)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.each);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    pub(in crate::tools) fn excerpt(mut self) -> Excerpt {
        let tail = self.tail.make_contiguous();
        let retained = (self.head.len() + tail.len()) as u64;
        if retained == self.size {
            self.head.extend_from_slice(tail);
            let Decoded { text, base64 } = Decoded::of(&self.head);
            return Excerpt { text, bytes: self.size, truncated: false, base64 };
        }
        let head = &self.head[..whole_characters(&self.head)];
        let tail = &tail[rest_of_character(tail)..];
        let left_out = self.size - (head.len() + tail.len()) as u64;
        let Decoded { text, base64 } = Decoded::of_ends(head, &format!("{left_out} bytes omitted"), tail);
        Excerpt { text, bytes: self.size, truncated: true, base64 }
    }
}

#[cfg(test)]
mod tests;
