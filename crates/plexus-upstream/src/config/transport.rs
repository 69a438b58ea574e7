//! The part of a document that says how to reach a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use http::{HeaderName, HeaderValue, Uri};
use plexus_kit::Secret;

use super::check::CheckContext;
use super::document::{Document, TransportName};
use super::problem::Findings;
use super::{HttpConfig, StdioConfig, Transport, auth};

/// Keys that only apply to a process.
const STDIO_KEYS: [&str; 4] = ["command", "args", "env", "cwd"];
/// Keys that only apply to a URL.
const HTTP_KEYS: [&str; 4] = ["url", "headers", "allow_private", "auth"];

/// Headers that the hub sets itself or that would change how a request is parsed; a file must not set them.
const OWN_HEADERS: [&str; 19] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Prefix of headers that carry arguments of a call, which a file must not set either.
const OWN_PREFIX: &str = "mcp-param-";

/// Whether a header is reserved for the hub, regardless of case.
pub(crate) fn is_of_the_hub(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    OWN_HEADERS.contains(&header.as_str()) || header.starts_with(OWN_PREFIX)
}

pub(super) fn check(
    document: &Document,
    given: &CheckContext<'_>,
    findings: &mut Findings,
) -> Option<Transport> {
    let kind = kind(document, given, findings)?;
    let (foreign, kind_name): (&[&str], _) = match kind {
        TransportName::Stdio => (&HTTP_KEYS, "stdio"),
        TransportName::Sse => (&STDIO_KEYS, "sse"),
        TransportName::StreamableHttp => (&STDIO_KEYS, "streamable_http"),
    };
    for key in foreign.iter().filter(|key| given.has(key)) {
        findings.problem(*key, format!("cannot be used with the transport {kind_name}"), "remove it");
    }
    match kind {
        TransportName::Stdio => stdio(document, given, findings).map(Transport::Stdio),
        TransportName::Sse => http(document, given, findings).map(Transport::Sse),
        TransportName::StreamableHttp => http(document, given, findings).map(Transport::StreamableHttp),
    }
}

/// The transport that is given, or that follows from the other keys.
fn kind(document: &Document, given: &CheckContext<'_>, findings: &mut Findings) -> Option<TransportName> {
    if let Some(kind) = document.transport {
        return Some(kind);
    }
    if given.has("transport") {
        // Its problem has already been reported.
        return None;
    }
    match (given.has("command"), given.has("url")) {
        (true, false) => Some(TransportName::Stdio),
        (false, true) => {
            let url = document.url.as_deref().unwrap_or_default();
            let path = url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
            Some(match path.ends_with("/sse") {
                true => TransportName::Sse,
                false => TransportName::StreamableHttp,
            })
        }
        (true, true) => {
            findings.problem(
                "url",
                "is set together with `command`, so the transport is ambiguous",
                "remove one of the two",
            );
            None
        }
        (false, false) => {
            findings.problem(
                "command",
                "is missing, and so is `url`",
                "write the program to start as `command`, or the URL of the server as `url`",
            );
            None
        }
    }
}

fn stdio(document: &Document, given: &CheckContext<'_>, findings: &mut Findings) -> Option<StdioConfig> {
    let cwd = document.cwd.as_deref().map(|cwd| absolute(cwd, given.folder, given));
    if document.cwd.as_deref() == Some("") && !findings.is_broken("cwd") {
        findings.problem("cwd", "is empty", "write the path of a folder, or leave it out");
    } else if cwd.as_ref().is_some_and(|cwd| !cwd.is_dir()) && !findings.is_broken("cwd") {
        findings.warn("cwd", "names a folder that does not exist; the program cannot start without it");
    }
    let command = match document.command.as_deref() {
        Some(command) => command.trim(),
        None => {
            if !given.has("command") {
                findings.problem("command", "is missing", r#"write the program to start, such as "npx""#);
            }
            return None;
        }
    };
    if !findings.is_broken("command") {
        if command.is_empty() {
            findings.problem("command", "is empty", r#"write the program to start, such as "npx""#);
        } else if command.contains('\0') {
            findings.problem("command", "contains the character U+0000", "remove it");
        } else if !command.contains('/') && command.contains(char::is_whitespace) {
            findings.problem(
                "command",
                "is more than a program name",
                r#"write only the program here, and each argument as an item of `args`"#,
            );
        }
    }
    for (index, _) in document.args.iter().enumerate().filter(|(_, arg)| arg.contains('\0')) {
        findings.problem(format!("args[{index}]"), "contains the character U+0000", "remove it");
    }
    for (name, value) in &document.env {
        let field = format!("env.{name}");
        if name.is_empty() || name.contains(['=', '\0']) {
            findings.problem(
                &field,
                "is not a valid variable name",
                "a variable name is not empty and contains no `=`",
            );
        } else if value.contains('\0') {
            findings.problem(&field, "contains the character U+0000", "remove it");
        }
    }
    let command = match command.contains('/') {
        true => absolute(command, cwd.as_deref().unwrap_or(given.folder), given).display().to_string(),
        false => command.to_owned(),
    };
    let env = document.env.iter().map(|(name, value)| (name.clone(), Secret::from(value.as_str())));
    Some(StdioConfig { command, args: document.args.clone(), env: env.collect(), cwd })
}

/// Resolves a path against `base`, or against the home folder if it begins with `~`.
pub(super) fn absolute(path: &str, base: &Path, given: &CheckContext<'_>) -> PathBuf {
    let path = given.environment.home_path(Path::new(path));
    // Avoids a `./` in the middle.
    base.join(path.strip_prefix(".").unwrap_or(&path))
}

fn http(document: &Document, given: &CheckContext<'_>, findings: &mut Findings) -> Option<HttpConfig> {
    let Some(url) = document.url.as_deref() else {
        if !given.has("url") {
            let fix = r#"write the URL of the server, such as "https://mcp.example.net/mcp""#;
            findings.problem("url", "is missing", fix);
        }
        return None;
    };
    if !findings.is_broken("url")
        && let Err((problem, fix)) = check_url(url)
    {
        findings.problem("url", problem, fix);
    }
    let mut headers: BTreeMap<String, Secret> = BTreeMap::new();
    for (name, value) in &document.headers {
        let field = format!("headers.{name}");
        match HeaderName::from_bytes(name.as_bytes()) {
            Err(_) => {
                let fix = "a header name consists of letters, digits and `-`";
                findings.problem(&field, "is not a valid header name", fix);
            }
            Ok(header) if is_of_the_hub(header.as_str()) => {
                findings.problem(&field, "is a header that the hub sets itself", "remove it");
            }
            Ok(header) => {
                if headers.insert(header.as_str().to_owned(), Secret::from(value.trim())).is_some() {
                    findings.problem(
                        &field,
                        "is set twice, in different capitalization",
                        "remove one of the two",
                    );
                }
            }
        }
        if HeaderValue::from_str(value.trim()).is_err() {
            findings.problem(
                &field,
                "contains characters that are not allowed in a header",
                "use plain ASCII",
            );
        }
    }
    let guessed = document.transport.is_none();
    let auth = auth::check(document, given, findings);
    Some(HttpConfig { url: Secret::from(url), headers, allow_private: document.allow_private, guessed, auth })
}

fn check_url(url: &str) -> Result<(), (&'static str, &'static str)> {
    let fix = "write a URL such as \"https://mcp.example.net/mcp\"";
    let uri: Uri = url.parse().map_err(|_| ("is not a URL", fix))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(("does not begin with http:// or https://", fix));
    }
    let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    if authority.contains('@') {
        return Err((
            "contains a user name or a password",
            "remove them, and set `headers.Authorization` if the server requires them",
        ));
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(("has no host", fix));
    }
    Ok(())
}
