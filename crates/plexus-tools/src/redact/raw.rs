//! Checks whether JSON text can be stored unchanged.
//!
//! Text is clean if nothing in it could be redacted, however its strings are escaped, and if it is on one line and can
//! be parsed again. Errors are one-sided: text reported as clean is identical to the result of full redaction, which a
//! test checks with thousands of values.
//!
//! The pattern is that of `plexus_kit::credential` for text between quotes: a boundary before a key may be the
//! letter of an escape (`\n`), a slash may have a backslash before it, a quote or white space between a name
//! and its value may be escaped. An escape such as `\u0041` could be any letter, so it is never clean.

use std::sync::LazyLock;

use plexus_kit::credential::SECRET_NAMES;
use regex::Regex;

/// Not every parser accepts deeper JSON; the one used here accepts 128 levels.
const MAX_DEPTH: usize = 100;
/// A longer number may be out of range for a parser.
const MAX_NUMBER: usize = 30;

static SUSPECT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let edge = r"(?:\b|\\[bfnrt])";
    let mut alternatives = vec![
        r"eyJ[A-Za-z0-9_-]{8,}\.".to_owned(),
        r"(?i:bearer|basic)(?:\s|\\[bfnrt])+[A-Za-z0-9._~+/\\-]{8}".to_owned(),
        format!(r"{edge}[sr]k[-_][A-Za-z0-9_-]{{16}}"),
        format!(r"{edge}(?:npm|hf|pypi|dop_v1|shpat|glsa)[_-][A-Za-z0-9_-]{{16}}"),
        r"gh[pousr]_[A-Za-z0-9]{20}".to_owned(),
        r"github_pat_[A-Za-z0-9_]{20}".to_owned(),
        r"glpat-[A-Za-z0-9_-]{16}".to_owned(),
        r"xox[abeprs]-[A-Za-z0-9-]{10}".to_owned(),
        r"A[KS]IA[0-9A-Z]{16}".to_owned(),
        r"AIza[A-Za-z0-9_-]{30}".to_owned(),
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----".to_owned(),
        // Neither the user name nor the password contains a slash, white space, or the end of the string.
        r":\\?/\\?/(?:\\[^/]|[^/\s\x22\\])*:(?:\\[^/]|[^/\s\x22\\])*@".to_owned(),
        r"(?i:[?&](?:[a-z_-]*token|[a-z_-]*key|[a-z_-]*secret|password|sig|signature)=)".to_owned(),
        r"(?i:(?:password|passwd|secret|token|api_?key|access_?key|private_?key)(?:\\.|[\x22'\s])*[:=])"
            .to_owned(),
    ];
    // Field names, with any separators between and after their letters.
    let names = SECRET_NAMES.iter().map(|name| {
        let chars: Vec<String> = name.chars().map(String::from).collect();
        format!(r"(?i:{}[-_]*\x22\s*:)", chars.join("[-_]*"))
    });
    alternatives.extend(names);
    Regex::new(&alternatives.join("|")).ok()
});

/// Whether the JSON text is on one line, can be parsed again, and contains nothing to redact.
pub(super) fn is_clean(json: &str) -> bool {
    is_plain(json) && has_no_suspect(json)
}

/// Whether JSON text that cannot be parsed contains nothing to redact.
pub(super) fn is_harmless(json: &str) -> bool {
    !json.contains("\\u") && has_no_suspect(json)
}

fn has_no_suspect(json: &str) -> bool {
    SUSPECT.as_ref().is_some_and(|pattern| !pattern.is_match(json))
}

/// Whether it has no escape that hides a letter, no control character, and nothing too deep or too large to parse.
fn is_plain(json: &str) -> bool {
    let (mut depth, mut number, mut in_string, mut escaped) = (0_usize, 0_usize, false, false);
    for byte in json.bytes() {
        if byte < b' ' {
            return false;
        }
        if in_string {
            match byte {
                b'u' if escaped => return false,
                b'\\' if !escaped => escaped = true,
                b'"' if !escaped => in_string = false,
                _ => escaped = false,
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            // The exponent of a number; letters of `true`, `false` and `null` follow other letters.
            b'e' | b'E' if number > 0 => return false,
            _ => {}
        }
        number = if byte.is_ascii_digit() || (number > 0 && byte == b'.') { number + 1 } else { 0 };
        if depth > MAX_DEPTH || number > MAX_NUMBER {
            return false;
        }
    }
    true
}
