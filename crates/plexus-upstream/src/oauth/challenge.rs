//! The `WWW-Authenticate` challenge with which a server rejects a request.

/// The challenge for bearer tokens; other schemes are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// The URL of the protected resource metadata (RFC 9728).
    pub(crate) resource_metadata: Option<String>,
    /// The scope that the rejected request needs.
    pub(crate) scope: Option<String>,
    pub(crate) error: Option<String>,
}

impl Challenge {
    /// Parses the header; several headers are passed joined by commas.
    pub(crate) fn of(header: &str) -> Self {
        let mut challenge = Self::default();
        let mut rest = header;
        let mut bearer = false;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            let (word, after) = rest.split_at(rest.find([' ', '\t', ',', '=', '"']).unwrap_or(rest.len()));
            if word.is_empty() {
                return challenge;
            }
            let Some(value) = after.trim_start().strip_prefix('=') else {
                bearer = word.eq_ignore_ascii_case("bearer");
                rest = after;
                continue;
            };
            let (value, after) = self::value(value.trim_start());
            rest = after;
            let field = match word.to_ascii_lowercase().as_str() {
                "resource_metadata" => &mut challenge.resource_metadata,
                "scope" => &mut challenge.scope,
                "error" => &mut challenge.error,
                _ => continue,
            };
            // The first value wins.
            if bearer && field.is_none() {
                *field = Some(value);
            }
        }
    }
}

/// Splits off a value with or without quotes; returns it and the rest.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = text.split_at(text.find([' ', '\t', ',']).unwrap_or(text.len()));
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut escaped = false;
    for (at, c) in quoted.char_indices() {
        match c {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return (value, &quoted[at + 1..]),
            c => {
                value.push(c);
                escaped = false;
            }
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests;
