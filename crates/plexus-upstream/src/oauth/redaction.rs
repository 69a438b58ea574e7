//! Removes secrets that were sent to an authorization server from its error texts.
//!
//! Such errors are shown to people and models, and some repeat the request. Secrets are removed in whole and
//! in part, because an authorization server may quote only the beginning of a token.

use http::header::HeaderValue;
use plexus_kit::credential::REDACTED;
use plexus_kit::{ExposeSecret, Secret};
use url::form_urlencoded;

/// The secret fields of a form.
const FIELDS: [&str; 5] = ["refresh_token", "code", "code_verifier", "token", "client_secret"];
/// Shorter values occur in unrelated text too often.
const MIN_WHOLE: usize = 4;
const MIN_PART: usize = 6;
/// Only the beginning of a longer text is examined; even less of it is repeated.
const MAX_TEXT: usize = 4096;

/// Longest first, because one may be a part of another.
// No `Debug`: it contains only secrets.
#[derive(Default)]
pub(super) struct SentSecrets(Vec<String>);

impl SentSecrets {
    pub(super) fn of(
        pairs: &[(&str, &str)],
        secret: Option<&Secret>,
        authorization: Option<&HeaderValue>,
    ) -> Self {
        let fields = pairs.iter().filter(|(name, _)| FIELDS.contains(name)).map(|(_, value)| *value);
        let header = authorization.and_then(|header| header.to_str().ok()?.split(' ').nth(1));
        let all = fields.chain(secret.map(|secret| secret.expose_secret())).chain(header);
        let mut values: Vec<String> = all
            .filter(|value| value.len() >= MIN_WHOLE)
            .flat_map(|value| {
                [value.to_owned(), form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>()]
            })
            .collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self(values)
    }

    /// The text with all secrets redacted.
    pub(super) fn redact(&self, text: &str) -> String {
        let mut text = text[..text.floor_char_boundary(MAX_TEXT)].to_owned();
        for value in &self.0 {
            if text.contains(value) {
                text = text.replace(value, REDACTED);
            }
        }
        let is_part = |word: &str| word.len() >= MIN_PART && self.0.iter().any(|value| value.contains(word));
        let mut out = String::with_capacity(text.len());
        for word in text.split_inclusive(|c: char| !is_of_token(c)) {
            let bare = word.trim_end_matches(|c: char| !is_of_token(c));
            match is_part(bare) {
                true => out.extend([REDACTED, &word[bare.len()..]]),
                false => out.push_str(word),
            }
        }
        out
    }
}

/// Whether a character can be part of a token. Full stops are excluded because they usually end a sentence.
fn is_of_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '~' | '+' | '/' | '%')
}

#[cfg(test)]
mod tests;
