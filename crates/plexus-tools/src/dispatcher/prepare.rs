//! Resolves the name of a call to a tool and validates the arguments.

use std::sync::Arc;

use aws_lc_rs::digest;
use plexus_kit::hex;
use serde_json::{Map, Value};

use super::CallKind;
use super::route::{self, Route};
use crate::native::tool_call;
use crate::{CallError, Tool, Visible, arguments, redact};

/// A call with a resolved tool and valid arguments.
pub(super) struct PreparedCall {
    pub(super) tool: Arc<Tool>,
    pub(super) arguments: Value,
    /// Its destination, if it runs on a node.
    pub(super) route: Option<Route>,
}

/// A refused call, with the details that are known for its record.
pub(super) struct RefusedCall {
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) error: CallError,
}

impl PreparedCall {
    /// Whether the node holds the call until its end is committed here. Required for a call that must not run twice or
    /// that may be queued; not for a read or for a call that its caller repeats anyway.
    pub(super) fn is_held_by_node(&self) -> bool {
        let access = self.tool.spec().access_of(&self.arguments);
        let once = !access.annotations.read_only_hint && !access.repeated;
        self.route.as_ref().is_some_and(|route| once || route.queue.is_some())
    }

    /// Whether the call has an effect outside the hub that must not happen twice.
    pub(super) fn reaches_out(&self) -> bool {
        let hints = self.tool.spec().access_of(&self.arguments).annotations;
        self.tool.spec().reaches_out() && !hints.read_only_hint && !hints.idempotent_hint
    }

    /// The same call with the arguments that the node receives.
    pub(super) fn for_machine(self) -> Self {
        Self { arguments: route::without_routing(&self.tool, self.arguments), ..self }
    }

    /// A hash of the tool and its arguments that does not depend on the formatting of the arguments.
    pub(super) fn hash(&self) -> String {
        request_hash(&self.tool.spec().name, &self.arguments)
    }
}

/// A resolved tool and its arguments before validation.
type ResolvedCall = (Arc<Tool>, Map<String, Value>);

/// Resolves the name and validates the arguments; a call of `tool_call` becomes a call of its target.
pub(super) fn prepare(
    visible: &Visible,
    kind: CallKind,
    name: String,
    given: Value,
) -> Result<PreparedCall, Box<RefusedCall>> {
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
    let indirect_name = tool.spec().name.to_string();
    let named = check(tool, given)?.arguments;
    let target = named["name"].as_str().unwrap_or_default().to_owned();
    let (tool, given) = resolve(visible, &target, named["arguments"].clone())?;
    if tool.is_indirect() {
        let problem =
            serde_json::json!({ "path": "/name", "message": format!("{indirect_name} cannot call itself") });
        let error = arguments::invalid(tool_call::NAME, vec![problem]);
        return Err(Box::new(RefusedCall { tool: indirect_name, arguments: Value::Object(given), error }));
    }
    check(tool, given)
}

/// Checks that the called tool, or the target of `tool_call`, is visible. Does not validate the arguments.
pub(super) fn visible(visible: &Visible, name: &str, arguments: &Value) -> Result<(), CallError> {
    let tool = visible.resolve(name)?;
    if !tool.is_indirect() {
        return Ok(());
    }
    let given = arguments.as_object().cloned().unwrap_or_default();
    let (arguments, _) = tool.check(given);
    arguments["name"].as_str().map_or(Ok(()), |target| visible.resolve(target).map(drop))
}

/// Like [`prepare`], for a tool that needs no lookup.
pub(super) fn prepare_given(tool: Arc<Tool>, given: Value) -> Result<PreparedCall, Box<RefusedCall>> {
    let (tool, given) = with_arguments(tool, given)?;
    check(tool, given)
}

fn resolve(visible: &Visible, name: &str, given: Value) -> Result<ResolvedCall, Box<RefusedCall>> {
    match visible.resolve(name) {
        Ok(tool) => with_arguments(tool.clone(), given),
        Err(error) => Err(refused(name, given, error)),
    }
}

fn refused(tool: &str, arguments: Value, error: CallError) -> Box<RefusedCall> {
    Box::new(RefusedCall { tool: tool.chars().take(100).collect(), arguments, error })
}

fn with_arguments(tool: Arc<Tool>, given: Value) -> Result<ResolvedCall, Box<RefusedCall>> {
    match given {
        Value::Null => Ok((tool, Map::new())),
        Value::Object(given) => Ok((tool, given)),
        other => {
            let problem = serde_json::json!({ "path": "", "message": "arguments must be a JSON object" });
            let error = arguments::invalid(&tool.spec().name, vec![problem]);
            Err(refused(&tool.spec().name, other, error))
        }
    }
}

fn check(tool: Arc<Tool>, given: Map<String, Value>) -> Result<PreparedCall, Box<RefusedCall>> {
    let (arguments, outcome) = tool.check(given);
    match outcome {
        Ok(()) => Ok(PreparedCall { tool, arguments, route: None }),
        Err(error) => {
            let arguments =
                redact::without(&arguments, &tool.spec().handling.unrecorded_names()).into_owned();
            Err(Box::new(RefusedCall { tool: tool.spec().name.to_string(), arguments, error }))
        }
    }
}

fn request_hash(tool: &str, arguments: &Value) -> String {
    hex::encode(digest(&[tool, &canonical(arguments)]).as_ref())
}

/// A digest of method, name and arguments that does not depend on the formatting of the arguments.
#[must_use]
pub fn request_digest(method: &str, name: &str, arguments: &Value) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&[method, name, &canonical(arguments)]).as_ref());
    bytes
}

/// Hashes the parts, separated by NUL bytes. Only the name may contain a NUL, so the split into parts is unambiguous.
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

/// JSON with sorted keys, so the result does not depend on the client's key order.
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
