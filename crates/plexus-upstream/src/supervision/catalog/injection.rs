//! Arguments that the hub fills in, so that a model does not have to provide them.
//!
//! An argument that is filled in completely is removed from the schema that models see; a value that a model
//! sends nevertheless is replaced. A path stays in the schema and is made absolute.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use plexus_proto::ErrorCode;
use plexus_tools::{CallError, ToolContext};
use serde_json::{Map, Value};

use crate::config::Inject;

/// The injected arguments of one tool: those of the server's configuration that this tool has.
pub(super) type Injected = Vec<(String, Inject)>;

/// Determines the injected arguments of a schema, and hides those that models need not know.
pub(super) fn prepare(mut schema: Value, inject: &BTreeMap<String, Inject>) -> (Value, Injected) {
    let mut injected = Injected::new();
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return (schema, injected);
    };
    for (name, kind) in inject {
        if !properties.contains_key(name) {
            continue;
        }
        if *kind != Inject::Path {
            properties.remove(name);
        }
        injected.push((name.clone(), *kind));
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        let hidden = |name: &Value| {
            injected.iter().any(|(hidden, kind)| *kind != Inject::Path && name.as_str() == Some(hidden))
        };
        required.retain(|name| !hidden(name));
        // Older drafts of JSON Schema do not allow an empty list here.
        if required.is_empty()
            && let Some(schema) = schema.as_object_mut()
        {
            schema.remove("required");
        }
    }
    (schema, injected)
}

/// Fills in the arguments of a call.
pub(in crate::supervision) fn fill(
    injected: &Injected,
    context: &ToolContext,
    home: Option<&Path>,
    arguments: &mut Map<String, Value>,
) -> Result<(), CallError> {
    for (name, kind) in injected {
        match kind {
            Inject::SessionId => {
                arguments.insert(name.clone(), context.session_id.to_string().into());
            }
            Inject::SessionFiles => {
                arguments.insert(name.clone(), text(&files_dir(context)?).into());
            }
            Inject::Path => {
                if let Some(Value::String(path)) = arguments.get_mut(name) {
                    let folder = files_dir(context)?;
                    *path = text(&absolute(path, &folder, home));
                }
            }
        }
    }
    Ok(())
}

fn files_dir(context: &ToolContext) -> Result<PathBuf, CallError> {
    context.files_dir(context.session_id).map_err(|error| {
        tracing::error!(%error, session = %context.session_id, "cannot create the session's file folder");
        CallError::new(ErrorCode::Internal, "the hub could not create the session's file folder")
    })
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Expands `~` to the home folder and resolves relative paths against `folder`; resolves `.` and `..`
/// lexically, without accessing the disk.
fn absolute(path: &str, folder: &Path, home: Option<&Path>) -> PathBuf {
    let from_home = match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => Some(home.to_owned()),
        (Some(rest), Some(home)) => rest.strip_prefix('/').map(|rest| home.join(rest)),
        _ => None,
    };
    let joined = from_home.unwrap_or_else(|| folder.join(path));
    let mut plain = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests;
