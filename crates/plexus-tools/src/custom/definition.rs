//! Converts a manifest into a tool, or reports all its problems at once.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use jsonschema::Validator;
use plexus_kit::findings::{Findings, Problem};
use plexus_kit::reference::{Resolver, is_variable_name};
use plexus_kit::{Environment, ExposeSecret as _, Secret, clock};
use plexus_proto::api::ToolAnnotations;
use plexus_proto::tool_name;
use serde_json::{Map, Value, json};

use super::manifest::{Annotations, Manifest, OutputForm, SCHEMA, Time};
use super::ownership;
use crate::handler::weight;
use crate::native;
use crate::{Access, Placement, ToolSpec};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);
const DEFAULT_OUTPUT: usize = 256 << 10;
const DEFAULT_CONCURRENCY: u16 = 4;
/// Longest description, in bytes: every model that sees the tool reads it.
const MAX_DESCRIPTION: usize = 8 << 10;
/// Reserved names: those of routes under `/api/v1/tools`, and `test_tool`.
const RESERVED: [&str; 2] = ["cost", "test_tool"];
/// Tools of the hub that are defined in other crates.
const HUB_TOOLS: [&str; 8] = [
    "code_exec",
    "filesystem",
    "image_view",
    "reload_tools",
    "ssh_exec",
    "system_info",
    "terminal",
    "transfer",
];
/// Added to the tool's own timeout, whose error is clearer than that of the deadline.
const DEADLINE_MARGIN: Duration = Duration::from_secs(5);

/// A tool with a valid manifest.
#[derive(Clone)]
pub(super) struct Definition {
    pub(super) name: String,
    title: String,
    pub(super) description: String,
    input_schema: Value,
    pub(super) output_schema: Option<Value>,
    pub(super) output: OutputForm,
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    /// Added to the minimal environment.
    pub(super) env: BTreeMap<String, Secret>,
    /// Its files: the working folder, and the files that others must not be able to write to.
    pub(super) folder: PathBuf,
    pub(super) file: PathBuf,
    pub(super) timeout: Duration,
    pub(super) output_bytes: usize,
    pub(super) concurrency: usize,
    annotations: ToolAnnotations,
}

impl Definition {
    /// Parses a manifest; returns the tool or all problems.
    pub(super) fn read(
        name: &str,
        file: &Path,
        mut written: Map<String, Value>,
        environment: &Environment,
    ) -> Result<Self, Vec<Problem>> {
        let mut findings = Findings::new(file.to_owned());
        if let Err(why) = usable_name(name) {
            findings
                .unusable(format!("has a name that {why}"), "rename it: its name is the name of the tool");
        }
        let given: Vec<String> = written.keys().cloned().collect();
        SCHEMA.check(&mut written, &mut findings);
        let manifest: Manifest = match serde_json::from_value(Value::Object(written)) {
            Ok(manifest) => manifest,
            // The type accepts everything that matches the schema. Its own error is not shown, because it would quote
            // values.
            Err(_) => {
                findings.unusable("cannot be read", "compare it with the schema of these files");
                Manifest::default()
            }
        };
        let missing = |key: &str| !given.iter().any(|present| present == key);
        if missing("description") {
            findings.problem("description", "is missing", "say what the tool does and when to use it");
        }
        if missing("command") {
            findings.problem("command", "is missing", r#"name the program, such as "run.sh""#);
        }
        let definition = Self::checked(name, file, manifest, environment, &mut findings);
        match findings.problems.is_empty() {
            true => Ok(definition),
            false => Err(findings.problems),
        }
    }

    fn checked(
        name: &str,
        file: &Path,
        manifest: Manifest,
        environment: &Environment,
        findings: &mut Findings,
    ) -> Self {
        let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
        if manifest.name.as_deref().is_some_and(|other| other != name) {
            findings.problem(
                "name",
                "is not the name of the file",
                format!("write {name:?}, or leave it out"),
            );
        }
        let description = manifest.description.unwrap_or_default();
        if description.len() > MAX_DESCRIPTION {
            let fix = format!(
                "shorten it to {} KiB: every model that sees the tool reads it",
                MAX_DESCRIPTION >> 10
            );
            findings.problem("description", "is too long", fix);
        }
        let nothing = || json!({ "type": "object", "properties": {}, "additionalProperties": false });
        let input_schema = manifest.input_schema.map_or_else(nothing, Value::Object);
        schema("input_schema", &input_schema, findings);
        let output_schema = manifest.output_schema.map(Value::Object);
        if let Some(output) = &output_schema {
            schema("output_schema", output, findings);
            if manifest.output == Some(OutputForm::Text) {
                findings.problem("output_schema", "does not go with text", "remove it, or `output`");
            }
        }
        let program = match manifest.command {
            Some(command) => program(&command, &folder, &manifest.args, findings),
            None => PathBuf::new(),
        };
        Self {
            name: name.to_owned(),
            title: manifest.title.unwrap_or_else(|| name.to_owned()),
            description,
            input_schema,
            output_schema,
            output: manifest.output.unwrap_or_default(),
            program,
            args: manifest.args,
            env: variables(manifest.env, &folder, environment, findings),
            folder,
            file: file.to_owned(),
            timeout: timeout(manifest.timeout, findings),
            output_bytes: manifest.output_bytes.map_or(DEFAULT_OUTPUT, |bytes| bytes as usize),
            concurrency: usize::from(manifest.concurrency.unwrap_or(DEFAULT_CONCURRENCY)),
            annotations: annotations(&manifest.annotations),
        }
    }

    pub(super) fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.clone().into(),
            title: self.title.clone().into(),
            description: self.description.clone().into(),
            input_schema: self.input_schema.clone(),
            output_schema: self.output_schema.clone(),
            access: Access { annotations: self.annotations, bufferable: false, repeated: false },
            actions: Vec::new(),
            placement: Placement::Custom,
            deadline: self.timeout + DEADLINE_MARGIN,
            admin: false,
            time: None,
            starts_agents: false,
            handling: crate::Handling::default(),
        }
    }

    /// The validator of its results.
    pub(super) fn output_validator(&self) -> Option<Validator> {
        self.output_schema.as_ref().and_then(|schema| jsonschema::validator_for(schema).ok())
    }

    /// Whether the two are equal.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        let exposed = |env: &BTreeMap<String, Secret>| -> Vec<(String, String)> {
            env.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned())).collect()
        };
        self.spec() == other.spec()
            && (self.output, &self.program, &self.args) == (other.output, &other.program, &other.args)
            && (&self.file, self.output_bytes, self.concurrency)
                == (&other.file, other.output_bytes, other.concurrency)
            && exposed(&self.env) == exposed(&other.env)
    }
}

/// Omits values, which may contain resolved secrets.
impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition")
            .field("name", &self.name)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// Checks that a user-defined tool can have this name.
///
/// # Errors
/// The problem, worded to follow "it".
pub fn check_name(name: &str) -> Result<(), &'static str> {
    usable_name(name)?;
    match HUB_TOOLS.contains(&name) || native::tools().iter().any(|tool| tool.name() == name) {
        true => Err("is that of a tool of the hub"),
        false => Ok(()),
    }
}

/// Checks the form of a tool's name.
fn usable_name(name: &str) -> Result<(), &'static str> {
    if !tool_name::is_plain(name) || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err("is not one letter and then letters, digits, `_` and `-`");
    }
    if name.len() > tool_name::MAX {
        return Err("is longer than 51 characters");
    }
    if name.starts_with("mcp_") || name.starts_with("mcp-") {
        return Err("begins as those of tools of MCP servers do");
    }
    if RESERVED.contains(&name) {
        return Err("stands for something else");
    }
    Ok(())
}

/// Checks that a schema describes an object, compiles and stays within the size limit when expanded.
fn schema(field: &str, schema: &Value, findings: &mut Findings) {
    if findings.is_broken(field) {
        return;
    }
    if schema["type"] != "object" {
        findings.problem(field, "is not of type object", r#"write {"type": "object", "properties": {…}}"#);
    } else if !weight::is_light(schema) {
        findings.problem(field, "is too large with its references written out", "make it simpler");
    } else if let Err(error) = jsonschema::validator_for(schema) {
        let fix = format!("correct it: {}", error.to_string().chars().take(200).collect::<String>());
        findings.problem(field, "is not a JSON Schema that can be used", fix);
    }
}

/// The program to run. Other users must not be able to change it or the script in its arguments.
fn program(command: &str, folder: &Path, args: &[String], findings: &mut Findings) -> PathBuf {
    let path = Path::new(command);
    let climbs = |path: &Path| path.components().any(|part| part == Component::ParentDir);
    if command.is_empty() || climbs(path) {
        findings.problem(
            "command",
            "is not a path inside of the folder",
            "write one without `..`, or an absolute one",
        );
        return PathBuf::new();
    }
    let program = folder.join(path);
    if let Err((problem, fix)) = ownership::check_program(&program) {
        findings.problem("command", problem, fix);
    }
    for (index, arg) in args.iter().enumerate() {
        let file = folder.join(arg);
        // An interpreter runs the script named by an argument.
        if !climbs(Path::new(arg))
            && file.is_file()
            && let Err((problem, fix)) = ownership::check_ownership(&file)
        {
            findings.problem(format!("args[{index}]"), problem, fix);
        }
    }
    program
}

fn variables(
    written: BTreeMap<String, String>,
    folder: &Path,
    environment: &Environment,
    findings: &mut Findings,
) -> BTreeMap<String, Secret> {
    let resolver = Resolver::new(environment, folder);
    let mut variables = BTreeMap::new();
    for (name, value) in written {
        let field = format!("env.{name}");
        if !is_variable_name(&name) {
            findings.problem(&field, "is no name of a variable", "use letters, digits and `_`");
        }
        match resolver.resolve(&value) {
            Ok(value) if value.contains('\0') => {
                findings.problem(&field, "has the character U+0000 in it", "take it out");
            }
            Ok(value) => {
                variables.insert(name, Secret::from(value));
            }
            Err(error) => findings.reference(&field, error),
        }
    }
    variables
}

fn timeout(given: Option<Time>, findings: &mut Findings) -> Duration {
    let time = match given {
        None => return DEFAULT_TIMEOUT,
        Some(Time::Seconds(seconds)) => Some(Duration::from_secs(seconds)),
        Some(Time::Text(text)) => clock::parse_duration(text.trim()),
    };
    match time {
        Some(time) if !time.is_zero() && time <= MAX_TIMEOUT => return time,
        Some(_) => {
            findings.problem("timeout", "is out of range", "write a time of more than nothing and at most 1h")
        }
        None => {
            let fix = r#"write a text such as "30s" or "5m", or a number of seconds"#;
            findings.problem("timeout", "is not a time", fix);
        }
    }
    DEFAULT_TIMEOUT
}

fn annotations(hints: &Annotations) -> ToolAnnotations {
    ToolAnnotations {
        read_only_hint: hints.read_only,
        destructive_hint: hints.destructive && !hints.read_only,
        idempotent_hint: hints.idempotent || hints.read_only,
        open_world_hint: hints.open_world,
    }
}
