//! Recognizes credentials by their field name or by their own form.
//!
//! Used to redact records, and to warn about files that contain credentials in plain text.

use std::sync::LazyLock;

use regex::Regex;

/// Replacement text for a credential.
pub const REDACTED: &str = "[redacted]";

/// Field-name endings, without `-` and `_`, that mark the value as secret.
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
        // A JSON Web Token, such as a Plexus token.
        r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
        r"(?i:bearer|basic)\s+[A-Za-z0-9._~+/-]{8,}=*",
        // Keys with issuer-specific prefixes.
        r"\b[sr]k[-_][A-Za-z0-9_-]{16,}",
        r"\b(?:npm|hf|pypi|dop_v1|shpat|glsa)[_-][A-Za-z0-9_-]{16,}",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}",
        r"\bglpat-[A-Za-z0-9_-]{16,}",
        r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
        r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
        // user:password@ in a URL, and secrets in its query parameters.
        r"://[^/\s:@]{0,100}:[^/\s]{1,200}@",
        r"(?i:[?&](?:[a-z_-]*token|[a-z_-]*key|[a-z_-]*secret|password|sig|signature)=)[^&\s\x22']+",
        // name=value and name: value in text, such as an environment or a configuration file.
        r"(?i:\b[a-z0-9_.-]*(?:password|passwd|secret|token|api_?key|access_?key|private_?key)[\x22']?\s*[:=]\s*)[\x22']?[^\s\x22',;&]{3,}",
    ];
    Regex::new(&alternatives.join("|")).ok()
});

/// A pattern that matches every credential in a text. The pattern is fixed and compiles; if `None`, the
/// caller must treat every text as a credential.
#[must_use]
pub fn pattern() -> Option<&'static Regex> {
    SECRET_TEXT.as_ref()
}

/// Whether a text contains something that looks like a credential.
#[must_use]
pub fn contains_credential(text: &str) -> bool {
    pattern().is_none_or(|pattern| pattern.is_match(text))
}

/// Whether a value under this name is secret, regardless of its form.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    SECRET_NAMES.iter().any(|secret| ends_in(name, secret))
}

/// Whether the name ends in the word, ignoring case, `-` and `_`.
fn ends_in(name: &str, word: &str) -> bool {
    let mut letters = name.bytes().rev().filter(|byte| !matches!(byte, b'-' | b'_'));
    word.bytes()
        .rev()
        .all(|expected| letters.next().is_some_and(|byte| byte.to_ascii_lowercase() == expected))
}
