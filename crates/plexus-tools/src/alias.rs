//! Aliases of arguments.
//!
//! Models are trained with the tools of their agents, so a model that knows `file_path` and `content` writes these
//! names here too. A tool declares such aliases beside the type of its arguments. Validation replaces them by the
//! canonical names: the handler, the records, the idempotency key and the node see only those. Schemas do not list
//! aliases, so they cost no context.

use std::iter;

use serde_json::{Map, Value, json};

/// An argument and its aliases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alias {
    /// The path of the argument in the schema, such as `path` or `edits/old`.
    pub argument: &'static str,
    pub names: &'static [&'static str],
}

impl Alias {
    #[must_use]
    pub const fn new(argument: &'static str, names: &'static [&'static str]) -> Self {
        Self { argument, names }
    }

    /// The path of the enclosing fields, and the argument's name.
    fn split(&self) -> (&'static str, &'static str) {
        self.argument.rsplit_once('/').unwrap_or(("", self.argument))
    }

    /// The name of the argument without its path.
    pub(crate) fn canonical(&self) -> &'static str {
        self.split().1
    }
}

/// Replaces aliases by canonical names. Returns a problem for each argument given under several names, which is then
/// not renamed.
pub(crate) fn resolve(aliases: &[Alias], arguments: &mut Map<String, Value>) -> Vec<Value> {
    let mut problems = Vec::new();
    for alias in aliases {
        let (within, _) = alias.split();
        let fields: Vec<&str> = within.split('/').filter(|field| !field.is_empty()).collect();
        each(arguments, &fields, "", &mut |object, path| rename(alias, object, path, &mut problems));
    }
    problems
}

/// Visits the objects at a path of fields; for a list, each of its objects.
fn each(
    object: &mut Map<String, Value>,
    fields: &[&str],
    path: &str,
    visit: &mut dyn FnMut(&mut Map<String, Value>, &str),
) {
    let Some((field, rest)) = fields.split_first() else { return visit(object, path) };
    let path = format!("{path}/{field}");
    match object.get_mut(*field) {
        Some(Value::Object(inner)) => each(inner, rest, &path, visit),
        Some(Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                if let Value::Object(inner) = item {
                    each(inner, rest, &format!("{path}/{index}"), visit);
                }
            }
        }
        _ => {}
    }
}

fn rename(alias: &Alias, object: &mut Map<String, Value>, path: &str, problems: &mut Vec<Value>) {
    let canonical = alias.canonical();
    // Null means "not given", as everywhere.
    for name in alias.names {
        if object.get(*name).is_some_and(Value::is_null) {
            object.remove(*name);
        }
    }
    let all = iter::once(&canonical).chain(alias.names);
    let given: Vec<&str> =
        all.copied().filter(|name| object.get(*name).is_some_and(|value| !value.is_null())).collect();
    match given[..] {
        [name] if name != canonical => {
            if let Some(value) = object.remove(name) {
                object.insert(canonical.to_owned(), value);
            }
        }
        [first, second, ..] => {
            let message = match first == canonical {
                true => format!("is an alias of {canonical:?}, which is also given; give only one"),
                false => format!("is an alias of {canonical:?}, like {first:?}; give only one"),
            };
            problems.push(json!({ "path": format!("{path}/{second}"), "message": message }));
        }
        _ => {}
    }
}

/// The aliases of arguments of the object at this path.
pub(crate) fn names_at(aliases: &[Alias], path: &str) -> Vec<&'static str> {
    let is_index = |part: &&str| part.is_empty() || part.bytes().all(|byte| byte.is_ascii_digit());
    let within = path.split('/').filter(|part| !is_index(part)).collect::<Vec<_>>().join("/");
    let here = aliases.iter().filter(|alias| alias.split().0 == within);
    here.flat_map(|alias| alias.names).copied().collect()
}

/// The problems with the aliases that a tool declares, given its schema: an argument that does not exist, or an alias
/// of two arguments. For tests of tools.
#[must_use]
pub fn conflicts(aliases: &[Alias], schema: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let mut names_seen = Vec::new();
    for alias in aliases {
        let (within, canonical) = alias.split();
        let object_schema =
            within.split('/').filter(|field| !field.is_empty()).try_fold(schema, |schema, field| {
                let inner = schema["properties"].get(field)?;
                Some(inner.get("items").unwrap_or(inner))
            });
        let properties = object_schema.map_or(&Value::Null, |schema| &schema["properties"]);
        if properties.get(canonical).is_none() {
            problems.push(format!("{} is not an argument", alias.argument));
        }
        for name in alias.names {
            if properties.get(*name).is_some() {
                problems.push(format!(
                    "{name} is an argument itself and cannot be an alias of {}",
                    alias.argument
                ));
            }
            if names_seen.contains(&(within, *name)) {
                problems.push(format!("{name} is an alias of two arguments"));
            }
            names_seen.push((within, *name));
        }
    }
    problems
}

#[cfg(test)]
mod tests;
