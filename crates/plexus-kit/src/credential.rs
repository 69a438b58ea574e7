//! What gives a credential away: the name it stands under, or its own form.
//!
//! Records are cleaned by it, and files that hold one in plain text are warned about.

use std::sync::LazyLock;

use regex::Regex;

/// What stands in place of a credential.
pub const REDACTED: &str = "[redacted]";

/// Names, without `-` and `_`, whose value is a secret when the field's name ends in one of them.
pub const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "authorization",
    "credential",
    "credentials",
    "privatekey",
    "accesskey",
    "secretkey",
    "signingkey",
    "cookie",
];

static SECRET_TEXT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let alternatives = [
        // A JSON Web Token, ours included.
        r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
        r"(?i:bearer|basic)\s+[A-Za-z0-9._~+/-]{8,}=*",
        // Keys with the prefixes their issuers gave them.
        r"\b[sr]k[-_][A-Za-z0-9_-]{16,}",
        r"\b(?:npm|hf|pypi|dop_v1|shpat|glsa)[_-][A-Za-z0-9_-]{16,}",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}",
        r"\bglpat-[A-Za-z0-9_-]{16,}",
        r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
        r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
        // user:password@ in a URL, and secrets among its parameters.
        r"://[^/\s:@]{0,100}:[^/\s]{1,200}@",
        r"(?i:[?&](?:[a-z_-]*token|[a-z_-]*key|[a-z_-]*secret|password|sig|signature)=)[^&\s\x22']+",
        // name=value and name: value in text, such as an environment or a configuration file.
        r"(?i:\b[a-z0-9_.-]*(?:password|passwd|secret|token|api_?key|access_?key|private_?key)[\x22']?\s*[:=]\s*)[\x22']?[^\s\x22',;&]{3,}",
    ];
    Regex::new(&alternatives.join("|")).ok()
});

/// Finds every credential in a text. The pattern is fixed and compiles; who finds none here must take every text for a
/// credential.
#[must_use]
pub fn pattern() -> Option<&'static Regex> {
    SECRET_TEXT.as_ref()
}

/// Whether a text has something in it that looks like a credential.
#[must_use]
pub fn is_in(text: &str) -> bool {
    pattern().is_none_or(|pattern| pattern.is_match(text))
}

/// Whether what stands under this name is a secret, whatever it looks like.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    SECRET_NAMES.iter().any(|secret| ends_in(name, secret))
}

/// Whether the name ends in the word, with `-` and `_` left out and whatever its case.
fn ends_in(name: &str, word: &str) -> bool {
    let mut letters = name.bytes().rev().filter(|byte| !matches!(byte, b'-' | b'_'));
    word.bytes()
        .rev()
        .all(|expected| letters.next().is_some_and(|byte| byte.to_ascii_lowercase() == expected))
}
