//! Other names of arguments.
//!
//! Agents are trained with tools of their own, and a model that knows `file_path` and `content` writes them here too. A tool
//! declares such names beside the type of its arguments. A call that uses one is a call with the canonical name from the
//! moment its arguments are checked: the handler, the records, the idempotency key and the machine it is sent to see no
//! other. No schema lists them, so they cost models nothing.

use std::iter;

use serde_json::{Map, Value, json};

/// An argument and the other names that it is accepted under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alias {
    /// The argument as the schema has it, after the names of the fields that it is in: `path`, `edits/old`.
    pub argument: &'static str,
    pub names: &'static [&'static str],
}

impl Alias {
    #[must_use]
    pub const fn new(argument: &'static str, names: &'static [&'static str]) -> Self {
        Self { argument, names }
    }

    /// The fields that it is in, and its own name.
    fn split(&self) -> (&'static str, &'static str) {
        self.argument.rsplit_once('/').unwrap_or(("", self.argument))
    }

    /// The name of the argument, without those of the fields that it is in.
    pub(crate) fn canonical(&self) -> &'static str {
        self.split().1
    }
}

/// Gives every argument its canonical name. Returns what is wrong where one is given under several names; nothing of it is
/// renamed then.
pub(crate) fn resolve(aliases: &[Alias], arguments: &mut Map<String, Value>) -> Vec<Value> {
    let mut problems = Vec::new();
    for alias in aliases {
        let (within, _) = alias.split();
        let fields: Vec<&str> = within.split('/').filter(|field| !field.is_empty()).collect();
        each(arguments, &fields, "", &mut |object, path| rename(alias, object, path, &mut problems));
    }
    problems
}

/// Visits the objects in a field of a field; where one holds a list, all that are in it.
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
            for (place, item) in items.iter_mut().enumerate() {
                if let Value::Object(inner) = item {
                    each(inner, rest, &format!("{path}/{place}"), visit);
                }
            }
        }
        _ => {}
    }
}

fn rename(alias: &Alias, object: &mut Map<String, Value>, path: &str, problems: &mut Vec<Value>) {
    let canonical = alias.canonical();
    // As everywhere, null stands for an argument that is not given.
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
                true => format!("another name of {canonical:?}, which is given too; give one of them"),
                false => format!("another name of {canonical:?}, as {first:?} is; give one of them"),
            };
            problems.push(json!({ "path": format!("{path}/{second}"), "message": message }));
        }
        _ => {}
    }
}

/// The other names of arguments of the object at this path of the arguments.
pub(crate) fn names_at(aliases: &[Alias], path: &str) -> Vec<&'static str> {
    let is_place = |part: &&str| part.is_empty() || part.bytes().all(|byte| byte.is_ascii_digit());
    let within = path.split('/').filter(|part| !is_place(part)).collect::<Vec<_>>().join("/");
    let here = aliases.iter().filter(|alias| alias.split().0 == within);
    here.flat_map(|alias| alias.names).copied().collect()
}

/// What is wrong with the names that a tool declares, given its schema: an argument that does not exist, or a name that
/// stands for two. For tests of tools.
#[must_use]
pub fn conflicts(aliases: &[Alias], schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for alias in aliases {
        let (within, canonical) = alias.split();
        let place = within.split('/').filter(|field| !field.is_empty()).try_fold(schema, |schema, field| {
            let inner = schema["properties"].get(field)?;
            Some(inner.get("items").unwrap_or(inner))
        });
        let properties = place.map_or(&Value::Null, |place| &place["properties"]);
        if properties.get(canonical).is_none() {
            found.push(format!("{} is not an argument", alias.argument));
        }
        for name in alias.names {
            if properties.get(*name).is_some() {
                found.push(format!("{name} is an argument itself, and cannot stand for {}", alias.argument));
            }
            if seen.contains(&(within, *name)) {
                found.push(format!("{name} stands for two arguments"));
            }
            seen.push((within, *name));
        }
    }
    found
}

#[cfg(test)]
mod tests;
