//! Recognizes the file formats in which programs store their servers.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::dialect::Dialect;

/// The inputs that VS Code prompts for: id to description.
pub(super) type Inputs = BTreeMap<String, String>;

pub(super) struct FoundServers {
    pub(super) form: &'static str,
    pub(super) dialect: Dialect,
    pub(super) servers: Vec<(String, Value)>,
    pub(super) inputs: Inputs,
    pub(super) warnings: Vec<String>,
    /// Information that needs no action.
    pub(super) notes: Vec<String>,
}

/// The servers of a file, or the reason why it cannot be imported.
pub(super) fn find_servers(file: Value) -> Result<FoundServers, String> {
    let Value::Object(mut file) = file else {
        return Err("is not an object: it must begin with `{`".to_owned());
    };
    // Claude Code's settings file also stores servers per project folder.
    let projects = projects(&file);
    let mut parsed = if let Some(servers) = file.remove("mcpServers") {
        parse_servers("mcpServers (Claude Code, Claude Desktop, Cursor)", servers)?
    } else if let Some(servers) = file.remove("mcp_servers") {
        FoundServers { dialect: Dialect::Codex, ..parse_servers("mcp_servers (Codex)", servers)? }
    } else if let Some(servers) = file.remove("context_servers") {
        FoundServers { dialect: Dialect::Zed, ..parse_servers("context_servers (Zed)", servers)? }
    } else if let Some(servers) = file.remove("servers") {
        let inputs = inputs(file.get("inputs"));
        FoundServers { inputs, ..parse_servers("servers (VS Code)", servers)? }
    } else if let Some(Value::Object(servers)) = file.get("mcp").filter(|mcp| is_opencode(mcp)) {
        let servers = Value::Object(servers.clone());
        FoundServers { dialect: Dialect::OpenCode, ..parse_servers("mcp (OpenCode)", servers)? }
    } else if let Some(Value::Object(mut settings)) = file.remove("mcp") {
        let inputs = inputs(settings.get("inputs"));
        let servers = settings.remove("servers").unwrap_or(Value::Null);
        FoundServers { inputs, ..parse_servers("mcp.servers (settings of VS Code)", servers)? }
    } else if let Some(extensions) = file.remove("extensions").filter(is_goose) {
        goose(extensions)?
    } else if !file.is_empty() && file.iter().all(|(name, entry)| name == "$schema" || is_server(entry)) {
        file.remove("$schema");
        parse_servers("servers by name", Value::Object(file))?
    } else {
        return Err(
            "has none of `mcpServers`, `mcp_servers`, `servers`, `context_servers`, `mcp` and `extensions`, and is not a \
             map of servers by name; name the file in which the program stores its MCP servers"
                .to_owned(),
        );
    };
    if projects > 0 {
        parsed.warnings.push(format!(
            "servers of {projects} folders in `projects` are not imported: import the `.mcp.json` of a folder, or copy \
             them to `mcpServers`"
        ));
    }
    Ok(parsed)
}

fn parse_servers(form: &'static str, servers: Value) -> Result<FoundServers, String> {
    let Value::Object(servers) = servers else {
        return Err("has servers that are not an object keyed by name".to_owned());
    };
    let servers = servers.into_iter().collect();
    let (inputs, warnings, notes) = (Inputs::new(), Vec::new(), Vec::new());
    Ok(FoundServers { form, dialect: Dialect::Common, servers, inputs, warnings, notes })
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
fn goose(extensions: Value) -> Result<FoundServers, String> {
    let mut parsed =
        FoundServers { dialect: Dialect::Goose, ..parse_servers("extensions (goose)", extensions)? };
    let is_server =
        |entry: &Value| matches!(entry["type"].as_str(), Some("stdio" | "sse" | "streamable_http"));
    let (servers, parts): (Vec<_>, Vec<_>) =
        parsed.servers.into_iter().partition(|(_, entry)| is_server(entry));
    parsed.servers = servers;
    if !parts.is_empty() {
        let names: Vec<String> = parts.into_iter().map(|(name, _)| name).collect();
        parsed.notes.push(format!("part of goose itself, not servers: {}", names.join(", ")));
    }
    Ok(parsed)
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
