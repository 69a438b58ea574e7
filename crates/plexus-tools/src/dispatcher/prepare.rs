//! The first half of a call: name to tool, arguments to what the tool takes.

use std::sync::Arc;

use aws_lc_rs::digest;
use plexus_kit::hex;
use serde_json::{Map, Value};

use super::CallKind;
use super::route::{self, Route};
use crate::native::tool_call;
use crate::{CallError, Tool, Visible, arguments, redact};

/// A call whose name and arguments hold.
pub(super) struct Prepared {
    pub(super) tool: Arc<Tool>,
    pub(super) arguments: Value,
    /// Where it goes, if that is not here.
    pub(super) route: Option<Route>,
}

/// A call that was turned down, with what is known of it for the record.
pub(super) struct Refused {
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) error: CallError,
}

impl Prepared {
    /// Whether its machine keeps the call until its end is committed here: not if running it twice does no harm and its
    /// caller repeats it, but always if it may have to wait.
    pub(super) fn is_kept(&self) -> bool {
        let access = self.tool.spec().access_of(&self.arguments);
        let once = !access.annotations.read_only_hint && !access.repeated;
        self.route.as_ref().is_some_and(|route| once || route.queue.is_some())
    }

    /// Whether the call does something outside of the hub that must not be done twice.
    pub(super) fn reaches_out(&self) -> bool {
        let hints = self.tool.spec().access_of(&self.arguments).annotations;
        self.tool.spec().reaches_out() && !hints.read_only_hint && !hints.idempotent_hint
    }

    /// The same call with the arguments that its machine gets.
    pub(super) fn for_machine(self) -> Self {
        Self { arguments: route::without_routing(&self.tool, self.arguments), ..self }
    }

    /// The same for the same tool and the same arguments, however they were written.
    pub(super) fn hash(&self) -> String {
        request_hash(&self.tool.spec().name, &self.arguments)
    }
}

/// A tool, and arguments that are not checked yet.
type Found = (Arc<Tool>, Map<String, Value>);

/// Name to tool, arguments to what the tool takes; through `tool_call` to the tool it names.
pub(super) fn prepare(
    visible: &Visible,
    kind: CallKind,
    name: String,
    given: Value,
) -> Result<Prepared, Box<Refused>> {
    if kind != CallKind::Tool {
        return match visible.facility_named(&name) {
            Ok(facility) => prepare_given(facility.clone(), given),
            Err(error) => Err(refused(&name, given, error)),
        };
    }
    let (tool, given) = resolve(visible, &name, given)?;
    if !tool.is_indirect() {
        return check(tool, given);
    }
    let own = tool.spec().name.to_string();
    let named = check(tool, given)?.arguments;
    let target = named["name"].as_str().unwrap_or_default().to_owned();
    let (tool, given) = resolve(visible, &target, named["arguments"].clone())?;
    if tool.is_indirect() {
        let problem = serde_json::json!({ "path": "/name", "message": format!("{own} cannot call itself") });
        let error = arguments::invalid(tool_call::NAME, vec![problem]);
        return Err(Box::new(Refused { tool: own, arguments: Value::Object(given), error }));
    }
    check(tool, given)
}

/// Whether there is what a call names; its arguments are not looked at otherwise.
pub(super) fn visible(visible: &Visible, name: &str, arguments: &Value) -> Result<(), CallError> {
    let tool = visible.resolve(name)?;
    if !tool.is_indirect() {
        return Ok(());
    }
    let given = arguments.as_object().cloned().unwrap_or_default();
    let (arguments, _) = tool.check(given);
    arguments["name"].as_str().map_or(Ok(()), |target| visible.resolve(target).map(drop))
}

/// The same for a tool that is there already.
pub(super) fn prepare_given(tool: Arc<Tool>, given: Value) -> Result<Prepared, Box<Refused>> {
    let (tool, given) = with_arguments(tool, given)?;
    check(tool, given)
}

fn resolve(visible: &Visible, name: &str, given: Value) -> Result<Found, Box<Refused>> {
    match visible.resolve(name) {
        Ok(tool) => with_arguments(tool.clone(), given),
        Err(error) => Err(refused(name, given, error)),
    }
}

fn refused(tool: &str, arguments: Value, error: CallError) -> Box<Refused> {
    Box::new(Refused { tool: tool.chars().take(100).collect(), arguments, error })
}

fn with_arguments(tool: Arc<Tool>, given: Value) -> Result<Found, Box<Refused>> {
    match given {
        Value::Null => Ok((tool, Map::new())),
        Value::Object(given) => Ok((tool, given)),
        other => {
            let problem = serde_json::json!({ "path": "", "message": "expected an object of arguments" });
            let error = arguments::invalid(&tool.spec().name, vec![problem]);
            Err(refused(&tool.spec().name, other, error))
        }
    }
}

fn check(tool: Arc<Tool>, given: Map<String, Value>) -> Result<Prepared, Box<Refused>> {
    let (arguments, outcome) = tool.check(given);
    match outcome {
        Ok(()) => Ok(Prepared { tool, arguments, route: None }),
        Err(error) => {
            let arguments =
                redact::without(&arguments, &tool.spec().handling.unrecorded_names()).into_owned();
            Err(Box::new(Refused { tool: tool.spec().name.to_string(), arguments, error }))
        }
    }
}

fn request_hash(tool: &str, arguments: &Value) -> String {
    hex::encode(digest(&[tool, &canonical(arguments)]).as_ref())
}

/// The same for the same method, name and arguments, however the arguments were written.
#[must_use]
pub fn request_digest(method: &str, name: &str, arguments: &Value) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&[method, name, &canonical(arguments)]).as_ref());
    bytes
}

/// Only a name may contain what separates the parts, so they can be told apart in one way.
fn digest(parts: &[&str]) -> digest::Digest {
    let mut context = digest::Context::new(&digest::SHA256);
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            context.update(&[0]);
        }
        context.update(part.as_bytes());
    }
    context.finish()
}

/// JSON with sorted keys, so that the order in which a client wrote them does not matter.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort();
            let parts: Vec<String> = names
                .into_iter()
                .map(|name| format!("{}:{}", Value::from(name.as_str()), canonical(&fields[name])))
                .collect();
            format!("{{{}}}", parts.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}
