//! Converts bytes to text: characters are not split, and binary data is also returned as base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Displayable program output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tools) struct Decoded {
    /// The text; bytes that are not valid UTF-8 are replaced.
    pub(in crate::tools) text: String,
    /// All bytes, if any were replaced.
    pub(in crate::tools) base64: Option<String>,
}

impl Decoded {
    pub(in crate::tools) fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self { text: text.to_owned(), base64: None },
            Err(_) => Self { text: String::from_utf8_lossy(bytes).into_owned(), base64: Some(base64(bytes)) },
        }
    }

    /// Joins the beginning and the end of an output with a note in between.
    pub(in crate::tools) fn of_ends(first: &[u8], between: &str, last: &[u8]) -> Self {
        let (beginning, end) = (Self::of(first), Self::of(last));
        let is_text = beginning.base64.is_none() && end.base64.is_none();
        Self {
            text: format!("{}\n[… {between} …]\n{}", beginning.text, end.text),
            base64: (!is_text).then(|| base64(&[first, last].concat())),
        }
    }
}

pub(in crate::tools) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The length without an incomplete character at the end.
pub(in crate::tools) fn whole_characters(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let character_length = match bytes[bytes.len() - back] {
            0x80..=0xBF => continue,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => 1,
        };
        return if character_length > back { bytes.len() - back } else { bytes.len() };
    }
    bytes.len()
}

/// The number of bytes at the beginning that belong to an incomplete character.
pub(in crate::tools) fn rest_of_character(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| matches!(byte, 0x80..=0xBF)).count()
}

#[cfg(test)]
mod tests;
