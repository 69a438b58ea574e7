//! What is told to an authorization server in confidence.
//!
//! Errors of authorization servers are shown to people and models, and some repeat what they were sent. So it is taken out,
//! whole or in part: an authorization server may show the beginning of a token only, which is still a part of it.

use http::header::HeaderValue;
use plexus_kit::credential::REDACTED;
use plexus_kit::{ExposeSecret, Secret};
use url::form_urlencoded;

/// The fields of a form that are secret.
const FIELDS: [&str; 5] = ["refresh_token", "code", "code_verifier", "token", "client_secret"];
/// Shorter ones stand in many a sentence that is not about them.
const MIN_WHOLE: usize = 4;
const MIN_PART: usize = 6;
/// Of a longer text only the beginning is looked at, and repeated even less.
const MAX_TEXT: usize = 4096;

/// Longest first: one may be a part of another.
// No `Debug`: it is nothing but secrets.
#[derive(Default)]
pub(super) struct Confided(Vec<String>);

impl Confided {
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

    /// The text without any of it.
    pub(super) fn out_of(&self, text: &str) -> String {
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

/// Whether tokens have this character in them. A full stop and the like end a sentence more often.
fn is_of_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '~' | '+' | '/' | '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_confided_is_taken_out_whole_and_in_part_and_the_rest_is_left() {
        let secret = Secret::from("of+the robot");
        let header = HeaderValue::from_static("Basic cm9ib3Q6c2VjcmV0");
        let pairs = [
            ("grant_type", "refresh_token"),
            ("refresh_token", "abcdef-123456.xyz"),
            ("resource", "https://a"),
        ];
        let confided = Confided::of(&pairs, Some(&secret), Some(&header));
        for (said, shown) in [
            ("the refresh_token is no good", "the refresh_token is no good"),
            ("token 'abcdef-123456.xyz' is unknown", "token '[redacted]' is unknown"),
            ("token abcdef-1... is unknown", "token [redacted]... is unknown"),
            ("(token=abcdef-123456)", "(token=[redacted])"),
            ("wrong secret of+the robot.", "wrong secret [redacted]."),
            ("client_secret=of%2Bthe+robot&x", "client_secret=[redacted]&x"),
            ("header cm9ib3Q6c2VjcmV0", "header [redacted]"),
            ("not for https://a", "not for https://a"),
        ] {
            assert_eq!(confided.out_of(said), shown);
        }
        let long = format!("{}abcdef-123456.xyz", " ".repeat(MAX_TEXT - 8));
        assert!(!confided.out_of(&long).contains("abcdef"), "also where it is cut");
        assert_eq!(Confided::default().out_of("as it is"), "as it is");
    }
}
