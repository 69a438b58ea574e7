//! Validates a document: returns either a runnable configuration or every problem at once.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_kit::reference::Resolver;
use plexus_kit::{Environment, clock};
use plexus_proto::tool_name::{self, RESERVED_SLUG};
use plexus_tools::file_schema::shown_path;
use serde_json::{Map, Value};

use super::document::{Document, Naming, Time, Tools};
use super::problem::{Findings, Problem};
use super::{Inject, ServerConfig, ToolRules, Transport, literals, schema, transport};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// Every model that sees the server reads its instructions.
const MAX_INSTRUCTIONS: usize = 16 * 1024;

/// Whether an unresolvable reference is a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingReference {
    Problem,
    /// A warning while the server is disabled: a missing value may be the reason why it is disabled.
    ExcusedWhileOff,
    /// A warning: a value that is missing here may exist in the hub's environment.
    Excused,
}

/// Builds the server that a document describes.
pub(super) fn check(
    name: &str,
    file: PathBuf,
    mut written: Map<String, Value>,
    environment: &Environment,
    missing: MissingReference,
) -> Result<ServerConfig, Vec<Problem>> {
    let mut findings = Findings::new(file);
    let slug = match usable_name(name) {
        Ok(slug) => slug,
        Err(why) => {
            findings
                .unusable(format!("has a name that {why}"), "rename it: the file name is the server name");
            String::new()
        }
    };
    let mut keys: Vec<String> = written.keys().cloned().collect();
    // A misspelt key is not reported as missing as well.
    keys.extend(schema::check(&mut written, &mut findings));
    literals::warn(&slug, &written, &mut findings);
    let folder = findings.file.parent().map(Path::to_owned).unwrap_or_default();
    let resolver = Resolver::new(environment, &folder);
    for (key, value) in &mut written {
        // The schema's location has no meaning for the hub.
        if key != "$schema" {
            fill_in(&resolver, &mut vec![key.clone()], value, &mut findings);
        }
    }
    // A resolved value may violate the schema of its field.
    schema::check(&mut written, &mut findings);
    let document = match serde_json::from_value(Value::Object(written)) {
        Ok(document) => document,
        // Documents that pass the schema deserialize. The deserialization error is dropped because it would
        // repeat values.
        Err(_) => {
            findings.unusable("cannot be read", "compare it with the schema of these files");
            Document::default()
        }
    };
    if missing == MissingReference::ExcusedWhileOff && document.enabled == Some(false) {
        findings.excuse_missing();
    }
    let given = CheckContext { keys: &keys, folder: &folder, environment };
    let transport = transport::check(&document, &given, &mut findings);
    let server = server(name, slug, document, transport, &mut findings);
    if missing == MissingReference::Excused && server.is_some() {
        findings.excuse_missing();
    }
    match server {
        Some(mut server) if findings.problems.is_empty() => {
            server.warnings = findings.warnings;
            Ok(server)
        }
        _ => Err(findings.problems),
    }
}

/// The surroundings of a document that checks need.
pub(super) struct CheckContext<'a> {
    /// Keys in the file, including misspelt ones and ones with an invalid value.
    keys: &'a [String],
    /// The folder that contains the file.
    pub(super) folder: &'a Path,
    pub(super) environment: &'a Environment,
}

impl CheckContext<'_> {
    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|own_key| own_key == key)
    }
}

/// The slug of a name, or the reason why the name is invalid.
pub(super) fn usable_name(name: &str) -> Result<String, &'static str> {
    if name.len() > 64 {
        return Err("is longer than 64 bytes");
    }
    if name.starts_with('.') || name.contains(['/', '\\']) || name.chars().any(char::is_control) {
        return Err("begins with a dot, or contains a slash or a control character");
    }
    let slug = tool_name::slug(name).ok_or("contains no ASCII letter or digit")?;
    match slug.eq_ignore_ascii_case(RESERVED_SLUG) {
        true => Err("is reserved for the hub itself"),
        false => Ok(slug),
    }
}

/// Resolves the references in every string of a value.
fn fill_in(resolver: &Resolver<'_>, path: &mut Vec<String>, value: &mut Value, findings: &mut Findings) {
    match value {
        Value::String(text) => match resolver.resolve(text) {
            Ok(resolved) => *text = resolved,
            Err(error) => {
                findings.reference(&shown_path(path), error);
                text.clear();
            }
        },
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.push(index.to_string());
                fill_in(resolver, path, item, findings);
                path.pop();
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                path.push(key.clone());
                fill_in(resolver, path, field, findings);
                path.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn server(
    name: &str,
    slug: String,
    document: Document,
    transport: Option<Transport>,
    findings: &mut Findings,
) -> Option<ServerConfig> {
    if document.node.is_some() && !findings.is_broken("node") {
        findings.problem(
            "node",
            "is set, but servers cannot run on nodes yet",
            "remove it: the server then runs on the hub's machine",
        );
    }
    let timeout = timeout(document.timeout, findings);
    for (group, tools) in &document.groups {
        let field = format!("groups.{group}");
        if group.is_empty() || group.contains('*') {
            findings.problem(
                &field,
                "is not a valid group name",
                "a group name is not empty and contains no `*`",
            );
        }
        names(&field, tools, findings);
    }
    if document.instructions.as_ref().is_some_and(|text| text.len() > MAX_INSTRUCTIONS) {
        let fix = format!(
            "shorten them to {} KiB: every model that sees the server reads them",
            MAX_INSTRUCTIONS / 1024
        );
        findings.problem("instructions", "are too long", fix);
    }
    let tools = tool_rules(document.tools, findings);
    let inject: BTreeMap<String, Inject> =
        document.inject.into_iter().map(|(argument, injected)| (argument, injected.into())).collect();
    if inject.contains_key("") {
        findings.problem("inject", "contains an empty argument name", "write the argument name");
    }
    let mut server = ServerConfig {
        name: name.to_owned(),
        slug,
        file: findings.file.clone(),
        enabled: document.enabled.unwrap_or(true),
        lazy: document.lazy,
        per_session: document.per_session,
        questions: document.questions.unwrap_or(true),
        transport: transport?,
        groups: document.groups,
        instructions: document.instructions.filter(|text| !text.trim().is_empty()),
        tools,
        timeout,
        max_concurrency: document.max_concurrency.map(usize::from),
        bare_names: document.naming == Some(Naming::Bare),
        approve: document.approve.unwrap_or_default(),
        inject,
        warnings: Vec::new(),
        fingerprint: 0,
        presentation: 0,
    };
    server.fingerprint = fingerprint(&server);
    server.presentation = presentation(&server);
    Some(server)
}

fn tool_rules(tools: Tools, findings: &mut Findings) -> ToolRules {
    let Tools { allow, deny, rename, idempotent } = tools;
    for (field, list) in [("allow", &allow), ("deny", &deny), ("idempotent", &idempotent)] {
        names(&format!("tools.{field}"), list, findings);
    }
    let mut renamed_from: BTreeMap<&str, &str> = BTreeMap::new();
    for (tool, name) in &rename {
        let field = format!("tools.rename.{tool}");
        if findings.is_broken(&field) {
            continue;
        }
        if tool.is_empty() || tool.contains('*') {
            findings.problem(&field, "is not a single tool name", "write the full name, without `*`");
        } else if name.is_empty() {
            findings.problem(&field, "has no new name", "write the name to use, or remove it");
        } else if let Some(other) = renamed_from.insert(name, tool) {
            findings.problem(
                &field,
                format!("gives the same name as `tools.rename.{other}`"),
                "give each tool its own name",
            );
        }
    }
    ToolRules { allow, deny, rename, idempotent }
}

/// Checks that no name or pattern of a list is empty.
fn names(field: &str, list: &[String], findings: &mut Findings) {
    for (index, name) in list.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if name.is_empty() && !findings.is_broken(&field) {
            findings.problem(field, "is empty", "write the name of a tool, or a pattern such as \"read_*\"");
        }
    }
}

fn timeout(given: Option<Time>, findings: &mut Findings) -> Duration {
    let time = match given {
        None => return DEFAULT_TIMEOUT,
        Some(_) if findings.is_broken("timeout") => return DEFAULT_TIMEOUT,
        Some(Time::Seconds(seconds)) => Some(Duration::from_secs(seconds)),
        Some(Time::Text(text)) => clock::parse_duration(text.trim()),
    };
    match time {
        Some(time) if !time.is_zero() && time <= MAX_TIMEOUT => time,
        Some(_) => {
            findings.problem(
                "timeout",
                "is out of range",
                "write a duration greater than zero and at most 24h",
            );
            DEFAULT_TIMEOUT
        }
        None => {
            findings.problem(
                "timeout",
                "is not a duration",
                r#"write a string such as "30s", "5m" or "500ms", or a number of seconds"#,
            );
            DEFAULT_TIMEOUT
        }
    }
}

/// Hash of the settings that a running server was started or connected with.
fn fingerprint(server: &ServerConfig) -> u64 {
    let mut hasher = DefaultHasher::new();
    server.per_session.hash(&mut hasher);
    // The default adds nothing to the hash, so that hashes that were stored before this field existed stay
    // valid.
    if !server.questions {
        "no questions".hash(&mut hasher);
    }
    server.transport.hash_into(&mut hasher);
    hasher.finish()
}

/// Hash of all other settings.
fn presentation(server: &ServerConfig) -> u64 {
    let mut hasher = DefaultHasher::new();
    let ToolRules { allow, deny, rename, idempotent } = &server.tools;
    (allow, deny, rename, idempotent).hash(&mut hasher);
    (&server.groups, &server.instructions, &server.inject).hash(&mut hasher);
    (server.timeout, server.max_concurrency, server.bare_names, server.lazy, server.approve)
        .hash(&mut hasher);
    // The port that the browser of the next login is redirected to.
    server.transport.http().and_then(|http| http.auth.oauth.as_ref()?.redirect_port).hash(&mut hasher);
    hasher.finish()
}
