//! `config.json` of a profile: its schema, and validation that reports all errors at once.

use std::collections::BTreeMap;
use std::path::Path;

use jsonschema::Validator;
use jsonschema::error::{TypeKind, ValidationError, ValidationErrorKind};
use plexus_kit::config::nearest;
use plexus_kit::json_schema;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::pattern::{Pattern, Server};
use super::{Profile, ProfileProblem};

/// Known keys that are rejected: a user who sets one relies on it.
const UNSUPPORTED_KEYS: [&str; 2] = ["approve", "budgets"];
/// Maximum number of characters of a wrong value shown in an error.
const MAX_SHOWN_CHARS: usize = 80;

/// What an agent is for, in detail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FullDescription {
    /// What the agent is good at.
    pub specialization: String,
    /// The work for which another agent should choose it.
    pub when_to_use: String,
    /// The tools that it mostly works with, as information for other agents. Grants nothing.
    pub key_tools: Vec<String>,
}

/// What `plexus run` passes to a third-party agent in addition to Plexus's tools. The agent decides about
/// omitted settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunSettings {
    /// Whether the agent is connected to the hub; true by default.
    pub mcp: Option<bool>,
    /// The model, by the agent's own name for it.
    #[schemars(length(min = 1, max = 200))]
    pub model: Option<String>,
    /// Reasoning effort, in the agent's own terms.
    #[schemars(length(min = 1, max = 50))]
    pub effort: Option<String>,
    /// When the agent asks a person for approval, in the agent's own terms. May loosen the agent's default.
    #[schemars(length(min = 1, max = 50))]
    pub approval_mode: Option<String>,
    /// Whether the agent calls the hub's tools without asking a person.
    pub allow_tools: Option<bool>,
    /// Whether the profile's `system_prompt.txt` is added to the agent's own system prompt.
    pub system_prompt: Option<bool>,
    /// Folders of skills, each with a `SKILL.md`, on the machine that runs the agent; `~/` is the home folder
    /// there.
    #[schemars(length(max = 50), inner(length(min = 1, max = 500)))]
    pub skills: Option<Vec<String>>,
    /// Whether the agent's status line shows Plexus.
    pub status_line: Option<bool>,
}

/// Agents with settings in `run`; `*` applies to all agents without their own settings.
const RUN_AGENTS: [&str; 6] = ["*", "claude", "codex", "gemini", "generic", "opencode"];

/// An agent: its purpose, its model, and the tools it is shown.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(title = "Plexus profile")]
#[serde(deny_unknown_fields)]
struct ProfileFile {
    /// Schema reference for editors.
    #[serde(rename = "$schema")]
    #[expect(dead_code, reason = "ignored")]
    schema: Option<String>,
    /// The name of the folder; tokens refer to the profile by it.
    #[expect(dead_code, reason = "checked against the folder name before")]
    id: Option<String>,
    /// Display name; defaults to the id.
    #[schemars(length(min = 1, max = 100))]
    name: Option<String>,
    /// One line, for lists.
    description: Option<String>,
    /// Description for agents that choose a profile.
    full_description: Option<FullDescription>,
    /// The back end for runs of this profile.
    #[schemars(length(min = 1))]
    llm_backend: Option<String>,
    /// The model, or several in order of preference: the first that answers is used.
    model: Option<Model>,
    /// Sampling temperature of the model.
    #[schemars(range(min = 0.0, max = 2.0))]
    temperature: Option<f64>,
    /// Maximum number of rounds in one run.
    #[schemars(range(min = 1, max = 10_000))]
    max_iterations: Option<u32>,
    /// Tools by name or glob. If omitted: all tools of the hub and none of other servers, like `"*"`;
    /// `"mcp__*"` selects the tools of all servers. An empty list selects none.
    #[schemars(length(max = 1000))]
    enabled_tools: Option<Vec<String>>,
    /// Tools of sub-agents, by name or glob, including those of servers. If empty: those of the profile.
    #[schemars(length(max = 1000))]
    subagent_tools: Option<Vec<String>>,
    /// Servers, each with the groups whose tools are shown; `["*"]` for all of its tools.
    #[schemars(extend("maxProperties" = 200))]
    mcp_servers: Option<BTreeMap<String, Vec<String>>>,
    /// List only `tool_search`, `tool_call` and the tools in `pinned`. The other tools are found with the
    /// former and called with the latter, and cost a model nothing until then.
    thin: Option<bool>,
    /// Tools that a thin profile lists in addition, by name or glob.
    #[schemars(length(max = 1000))]
    pinned: Option<Vec<String>>,
    /// What `plexus run` passes to third-party agents, by agent name; `*` applies to all agents, for settings
    /// that the agent's own entry omits.
    run: Option<BTreeMap<String, RunSettings>>,
    /// The machine that runs of this profile use.
    #[schemars(length(min = 1))]
    node_id: Option<String>,
    /// Whether the agent first makes a plan where that helps.
    planning_enabled: Option<bool>,
    /// Whether the agent always first makes a plan.
    planning_mandatory: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Model {
    One(#[schemars(length(min = 1))] String),
    Several(#[schemars(length(min = 1, max = 20), inner(length(min = 1)))] Vec<String>),
}

/// JSON Schema of the file, for editors.
#[must_use]
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<ProfileFile>().to_value();
    without_null(&mut schema);
    schema
}

/// Optional fields may be omitted but not null: a null written by a template would mean "all tools".
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            json_schema::drop_null(object);
            json_schema::join_lines(object);
            // Formats such as integer sizes are irrelevant to people.
            object.remove("format");
            object.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}

/// Reads profile files; compiles the schema once.
pub(super) struct Reader {
    schema: Value,
    validator: Option<Validator>,
}

impl Reader {
    pub(super) fn new() -> Self {
        let schema = schema();
        let validator = jsonschema::validator_for(&schema)
            .inspect_err(|error| tracing::error!(%error, "the schema of profiles does not compile"))
            .ok();
        Self { schema, validator }
    }

    /// Parses a profile, without its prompts.
    pub(super) fn read(&self, id: &str, path: &Path, text: &str) -> Result<Profile, Vec<ProfileProblem>> {
        let mut problems = Problems { path, found: Vec::new() };
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return Err(problems.only("", format!("is not JSON: {error}"))),
        };
        let Value::Object(mut object) = value else {
            return Err(problems.only("", "is not an object: it must begin with {".to_owned()));
        };
        for key in UNSUPPORTED_KEYS {
            if object.remove(key).is_some() {
                problems.add(key, "is not supported yet; remove it".to_owned());
            }
        }
        self.check(&Value::Object(object.clone()), &mut problems);
        check_names(&object, &mut problems);
        if let Some(other) = object.get("id").and_then(Value::as_str).filter(|other| *other != id) {
            problems.add("id", format!("is {other:?}, but the folder is {id:?}: they must be the same"));
        }
        if object.get("planning_mandatory") == Some(&Value::Bool(true))
            && object.get("planning_enabled") == Some(&Value::Bool(false))
        {
            problems.add("planning_mandatory", "cannot be true where planning_enabled is false".to_owned());
        }
        if !problems.found.is_empty() {
            return Err(problems.found);
        }
        // Deserializes from the text, which also detects duplicate keys.
        match serde_json::from_str::<ProfileFile>(text) {
            Ok(file) => file.into_profile(id).map_err(|why| problems.only("", why)),
            Err(error) => Err(problems.only("", error.to_string())),
        }
    }

    fn check(&self, value: &Value, problems: &mut Problems<'_>) {
        let Some(validator) = &self.validator else {
            problems.add("", "cannot be validated: the schema of profiles is invalid".to_owned());
            return;
        };
        for error in validator.iter_errors(value) {
            let pointer = error.instance_path().to_string();
            match error.kind() {
                ValidationErrorKind::AdditionalProperties { unexpected } => {
                    for key in unexpected {
                        problems.add(&pointer, self.unknown_key(key, &error));
                    }
                }
                _ => problems.add(&pointer, wrong(&error)),
            }
        }
    }

    fn unknown_key(&self, key: &str, error: &ValidationError<'_>) -> String {
        // The object schema that rejected the key is the parent of its `additionalProperties`.
        let location = error.schema_path().to_string();
        let parent = location.rsplit_once('/').map_or("", |(parent, _)| parent);
        let valid_keys = self.schema.pointer(&format!("{parent}/properties")).and_then(Value::as_object);
        let valid_keys: Vec<&str> = valid_keys.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let key: String = key.chars().take(MAX_SHOWN_CHARS).collect();
        match nearest(&key, valid_keys.iter().copied()) {
            Some(near) => format!("unknown key `{key}`; did you mean `{near}`?"),
            None => format!("unknown key `{key}`; known keys: {}", valid_keys.join(", ")),
        }
    }
}

/// The error for a value that violates the schema.
fn wrong(error: &ValidationError<'_>) -> String {
    let got = shown(error.instance());
    match error.kind() {
        ValidationErrorKind::Type { kind: TypeKind::Single(kind) } => format!("expected {kind}, got {got}"),
        ValidationErrorKind::AnyOf { .. } => format!("expected text, or a list of texts, got {got}"),
        _ => error.to_string().chars().take(2 * MAX_SHOWN_CHARS).collect(),
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        None => text,
        Some((cut, _)) => format!("{}…", &text[..cut]),
    }
}

/// Checks names in lists, beyond what the schema can express.
fn check_names(object: &Map<String, Value>, problems: &mut Problems<'_>) {
    for list in ["enabled_tools", "subagent_tools", "pinned"] {
        let names = object.get(list).and_then(Value::as_array).into_iter().flatten();
        for (index, name) in names.enumerate() {
            if let Some(why) = name.as_str().and_then(|name| Pattern::parse(name).err()) {
                problems.add(&format!("/{list}/{index}"), why);
            }
        }
    }
    for name in object.get("run").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
        if !RUN_AGENTS.contains(&name.as_str()) {
            let why = format!("is not an agent that can be run; use one of {}", RUN_AGENTS.join(", "));
            problems.add(&format!("/run/{name}"), why);
        }
    }
    let mut slugs: BTreeMap<String, &str> = BTreeMap::new();
    for name in object.get("mcp_servers").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
        match Server::parse(name, Vec::new()) {
            Err(why) => problems.add(&format!("/mcp_servers/{name}"), why),
            Ok(server) => {
                if let Some(other) = slugs.insert(server.slug.clone(), name) {
                    let why = format!("is the same server as {other:?} ({}); merge the entries", server.slug);
                    problems.add(&format!("/mcp_servers/{name}"), why);
                }
            }
        }
    }
}

impl ProfileFile {
    fn into_profile(self, id: &str) -> Result<Profile, String> {
        let patterns = |names: Vec<String>| -> Result<Vec<Pattern>, String> {
            names.iter().map(|name| Pattern::parse(name)).collect()
        };
        let servers = self.mcp_servers.unwrap_or_default().into_iter();
        let planning_mandatory = self.planning_mandatory.unwrap_or_default();
        Ok(Profile {
            id: id.to_owned(),
            name: self.name.unwrap_or_else(|| id.to_owned()),
            description: self.description.unwrap_or_default(),
            full_description: self.full_description.unwrap_or_default(),
            llm_backend: self.llm_backend,
            models: match self.model {
                None => Vec::new(),
                Some(Model::One(model)) => vec![model],
                Some(Model::Several(models)) => models,
            },
            temperature: self.temperature,
            max_iterations: self.max_iterations,
            run: self.run.unwrap_or_default(),
            node_id: self.node_id,
            planning_enabled: self.planning_enabled.unwrap_or(planning_mandatory),
            planning_mandatory,
            system_prompt: None,
            subagent_system_prompt: None,
            enabled_tools: self.enabled_tools.map(patterns).transpose()?,
            subagent_tools: patterns(self.subagent_tools.unwrap_or_default())?,
            thin: self.thin.unwrap_or_default(),
            pinned: patterns(self.pinned.unwrap_or_default())?,
            servers: servers.map(|(name, groups)| Server::parse(&name, groups)).collect::<Result<_, _>>()?,
        })
    }
}

/// Collects the errors of one file.
struct Problems<'p> {
    path: &'p Path,
    found: Vec<ProfileProblem>,
}

impl Problems<'_> {
    fn add(&mut self, pointer: &str, message: String) {
        self.found.push(ProfileProblem { file: self.path.to_owned(), field: field(pointer), message });
    }

    fn only(mut self, pointer: &str, message: String) -> Vec<ProfileProblem> {
        self.add(pointer, message);
        self.found
    }
}

/// Converts a JSON pointer such as `/enabled_tools/2` to `enabled_tools[2]`.
fn field(pointer: &str) -> String {
    let mut field = String::new();
    for part in pointer.split('/').filter(|part| !part.is_empty()) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            field.push_str(&format!("[{part}]"));
        } else {
            if !field.is_empty() {
                field.push('.');
            }
            field.push_str(&part);
        }
    }
    field
}
