//! The forms in which programs write down their servers.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::dialect::Dialect;

/// What VS Code asks a person for: id to what it says about it.
pub(super) type Inputs = BTreeMap<String, String>;

pub(super) struct Found {
    pub(super) form: &'static str,
    pub(super) dialect: Dialect,
    pub(super) servers: Vec<(String, Value)>,
    pub(super) inputs: Inputs,
    pub(super) warnings: Vec<String>,
    /// What a person should know and need not do anything about.
    pub(super) notes: Vec<String>,
}

/// The servers of a file, or what is wrong with it.
pub(super) fn find(file: Value) -> Result<Found, String> {
    let Value::Object(mut file) = file else {
        return Err("is not an object: it has to begin with `{`".to_owned());
    };
    // The file of all settings of Claude Code has servers of folders too.
    let projects = projects(&file);
    let mut found = if let Some(servers) = file.remove("mcpServers") {
        found("mcpServers (Claude Code, Claude Desktop, Cursor)", servers)?
    } else if let Some(servers) = file.remove("mcp_servers") {
        Found { dialect: Dialect::Codex, ..found("mcp_servers (Codex)", servers)? }
    } else if let Some(servers) = file.remove("context_servers") {
        Found { dialect: Dialect::Zed, ..found("context_servers (Zed)", servers)? }
    } else if let Some(servers) = file.remove("servers") {
        let inputs = inputs(file.get("inputs"));
        Found { inputs, ..found("servers (VS Code)", servers)? }
    } else if let Some(Value::Object(servers)) = file.get("mcp").filter(|mcp| is_opencode(mcp)) {
        let servers = Value::Object(servers.clone());
        Found { dialect: Dialect::OpenCode, ..found("mcp (OpenCode)", servers)? }
    } else if let Some(Value::Object(mut settings)) = file.remove("mcp") {
        let inputs = inputs(settings.get("inputs"));
        let servers = settings.remove("servers").unwrap_or(Value::Null);
        Found { inputs, ..found("mcp.servers (settings of VS Code)", servers)? }
    } else if let Some(extensions) = file.remove("extensions").filter(is_goose) {
        goose(extensions)?
    } else if !file.is_empty() && file.iter().all(|(name, entry)| name == "$schema" || is_server(entry)) {
        file.remove("$schema");
        found("servers by name", Value::Object(file))?
    } else {
        return Err(
            "has none of `mcpServers`, `mcp_servers`, `servers`, `context_servers`, `mcp` and `extensions`, and is not a \
             list of servers by name; name the file in which the program keeps its MCP servers"
                .to_owned(),
        );
    };
    if projects > 0 {
        found.warnings.push(format!(
            "servers of {projects} folders in `projects` are not imported: import the `.mcp.json` of a folder, or copy \
             them to `mcpServers`"
        ));
    }
    Ok(found)
}

fn found(form: &'static str, servers: Value) -> Result<Found, String> {
    let Value::Object(servers) = servers else {
        return Err("has servers that are not an object with a name for each".to_owned());
    };
    let servers = servers.into_iter().collect();
    let (inputs, warnings, notes) = (Inputs::new(), Vec::new(), Vec::new());
    Ok(Found { form, dialect: Dialect::Common, servers, inputs, warnings, notes })
}

/// VS Code has `servers` below `mcp`, OpenCode the servers themselves.
fn is_opencode(mcp: &Value) -> bool {
    let is_typed = |entry: &Value| matches!(entry["type"].as_str(), Some("local" | "remote"));
    mcp.as_object().is_some_and(|servers| servers.values().any(is_typed))
}

fn is_goose(extensions: &Value) -> bool {
    extensions.as_object().is_some_and(|extensions| extensions.values().all(|one| one["type"].is_string()))
}

/// Most extensions of goose are parts of it and not servers.
fn goose(extensions: Value) -> Result<Found, String> {
    let mut found = Found { dialect: Dialect::Goose, ..found("extensions (goose)", extensions)? };
    let is_server =
        |entry: &Value| matches!(entry["type"].as_str(), Some("stdio" | "sse" | "streamable_http"));
    let (servers, parts): (Vec<_>, Vec<_>) =
        found.servers.into_iter().partition(|(_, entry)| is_server(entry));
    found.servers = servers;
    if !parts.is_empty() {
        let names: Vec<String> = parts.into_iter().map(|(name, _)| name).collect();
        found.notes.push(format!("part of goose itself, and not servers: {}", names.join(", ")));
    }
    Ok(found)
}

fn is_server(entry: &Value) -> bool {
    ["command", "url", "serverUrl", "httpUrl"].iter().any(|key| entry.get(key).is_some_and(Value::is_string))
}

fn projects(file: &Map<String, Value>) -> usize {
    let projects = file.get("projects").and_then(Value::as_object).into_iter().flatten();
    let has_servers = |project: &Value| {
        project.get("mcpServers").and_then(Value::as_object).is_some_and(|servers| !servers.is_empty())
    };
    projects.filter(|(_, project)| has_servers(project)).count()
}

fn inputs(given: Option<&Value>) -> Inputs {
    let inputs = given.and_then(Value::as_array).into_iter().flatten();
    let input = |input: &Value| {
        let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
        Some((text("id")?, text("description").unwrap_or_default()))
    };
    inputs.filter_map(input).collect()
}
