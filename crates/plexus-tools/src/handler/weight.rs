//! Measures the size of a schema with its references expanded, which determines the cost of validating with it.
//!
//! A schema of a few lines can double with every reference. Schemas of other servers are measured before they are
//! compiled, in a bounded walk.
//!
//! A recursive schema cannot be expanded: the arguments determine how often it is applied. That is harmless while each
//! value is checked by one part of the schema. If two parts apply to the same value, as in `anyOf`, and both recurse,
//! the work doubles with every level of the arguments. So between two references of a cycle only keywords that descend
//! to a child value are allowed.

use serde_json::{Map, Value};

/// The most values in an expanded schema.
const MAX_VALUES: usize = 10_000;
/// The deepest nesting, references included.
const MAX_DEPTH: usize = 400;

/// The keywords allowed beside a reference in a cycle: annotations, which validation ignores.
const ANNOTATION_KEYWORDS: [&str; 8] =
    ["$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"];

/// Whether a schema of another server may be compiled. A schema with references other than paths in the same document
/// may not: the size of their targets is not known.
pub(crate) fn is_light(schema: &Value) -> bool {
    // Below another `$id`, paths start there, not at the root.
    let id = match schema["$schema"].as_str() {
        Some(dialect) if dialect.contains("draft-04") => "id",
        _ => "$id",
    };
    SchemaWalk { root: schema, id, budget: MAX_VALUES, open_references: Vec::new(), cycles: 0 }.fits(
        schema,
        SchemaPosition::Target,
        0,
    )
}

/// The position of a part of a schema relative to the reference that led to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaPosition {
    /// The target of the reference.
    Target,
    /// The only schema of a child of the value that the target applies to.
    Inside,
    /// A map from names to such schemas.
    Names,
    /// Any other position: the value may have several schemas.
    Beside,
}

impl SchemaPosition {
    fn member(self, name: &str) -> Self {
        match (self, name) {
            (Self::Target | Self::Inside, "properties" | "$defs" | "definitions") => Self::Names,
            (Self::Target | Self::Inside, "items" | "additionalProperties") | (Self::Names, _) => {
                Self::Inside
            }
            (Self::Target | Self::Inside | Self::Beside, _) => Self::Beside,
        }
    }
}

struct SchemaWalk<'s> {
    root: &'s Value,
    /// The keyword that gives a part of a schema its own address.
    id: &'static str,
    budget: usize,
    /// References being followed; a recursive one is not expanded again.
    open_references: Vec<&'s str>,
    /// The number of recursive references.
    cycles: usize,
}

impl<'s> SchemaWalk<'s> {
    fn fits(&mut self, value: &'s Value, at: SchemaPosition, depth: usize) -> bool {
        if self.budget == 0 || depth > MAX_DEPTH {
            return false;
        }
        self.budget -= 1;
        let is_root = std::ptr::eq(value, self.root);
        match value {
            Value::Object(members) => members.iter().all(|(name, value)| match (name.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target)) => {
                    self.fits_reference(target, at == SchemaPosition::Inside && is_alone(members), depth)
                }
                (name, Value::String(_)) if name == self.id => is_root,
                _ => self.fits(value, at.member(name), depth + 1),
            }),
            Value::Array(items) => items.iter().all(|item| self.fits(item, at, depth + 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }

    /// `single`: the value has no other schema. Only then may the reference be part of a cycle.
    fn fits_reference(&mut self, target: &'s str, single: bool, depth: usize) -> bool {
        let cycles = self.cycles;
        if self.open_references.contains(&target) {
            self.cycles += 1;
        } else if !self.fits_target(target, depth) {
            return false;
        }
        single || self.open_references.is_empty() || self.cycles == cycles
    }

    fn fits_target(&mut self, target: &'s str, depth: usize) -> bool {
        let path = target.strip_prefix('#').filter(|path| !path.contains('%'));
        let Some(value) = path.and_then(|path| self.root.pointer(path)) else { return false };
        self.open_references.push(target);
        let fits = self.fits(value, SchemaPosition::Target, depth + 1);
        self.open_references.pop();
        fits
    }
}

/// Whether the reference is the only constraint among these members.
fn is_alone(members: &Map<String, Value>) -> bool {
    members.keys().filter(|name| !ANNOTATION_KEYWORDS.contains(&name.as_str())).count() == 1
}

#[cfg(test)]
mod tests;
