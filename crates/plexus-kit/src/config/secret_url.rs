//! Redaction of URLs that may contain a password.

const REDACTED: &str = "***";

/// The URL with its password and secret parameters redacted.
pub(crate) fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // A file, or not a URL, in which case any part may be secret.
        let is_public = url.is_empty() || url.starts_with("sqlite:");
        return if is_public { url } else { REDACTED }.to_owned();
    };
    if scheme.starts_with("http") {
        return redacted_http(scheme, rest);
    }
    let (login, rest) = match login(rest) {
        Some((user, _, rest)) => (format!("{user}:{REDACTED}@"), rest),
        None => (String::new(), rest),
    };
    let Some((location, query)) = rest.split_once('?') else { return format!("{scheme}://{login}{rest}") };
    let parameters = query.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, _)) if is_secret_parameter(name) => format!("{name}={REDACTED}"),
        _ => parameter.to_owned(),
    });
    format!("{scheme}://{login}{location}?{}", parameters.collect::<Vec<_>>().join("&"))
}

/// Keeps only the location of a web address: the user name alone may be a token, and so may any parameter.
fn redacted_http(scheme: &str, rest: &str) -> String {
    let (login, location) = match rest.rsplit_once('@') {
        Some((_, location)) => (format!("{REDACTED}@"), location),
        None => (String::new(), rest),
    };
    match location.split_once(['?', '#']) {
        Some((location, _)) => format!("{scheme}://{login}{location}?{REDACTED}"),
        None => format!("{scheme}://{login}{location}"),
    }
}

/// Whether the URL contains a password, or is entirely secret.
pub(super) fn has_password(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return redacted(url) == REDACTED };
    let (_, query) = rest.split_once('?').unwrap_or_default();
    let in_query = query.split('&').any(|parameter| {
        parameter.split_once('=').is_some_and(|(name, value)| is_secret_parameter(name) && !value.is_empty())
    });
    let is_token = url.starts_with("http") && rest.contains('@');
    in_query || is_token || login(rest).is_some_and(|(_, password, _)| !password.is_empty())
}

/// User, password and the rest. A password may contain any character, so it ends at the last `@`.
fn login(rest: &str) -> Option<(&str, &str, &str)> {
    let (login, host) = rest.rsplit_once('@')?;
    let (user, password) = login.split_once(':')?;
    Some((user, password, host))
}

fn is_secret_parameter(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "secret", "token", "key"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests;
