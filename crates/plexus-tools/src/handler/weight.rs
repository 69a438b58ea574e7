//! How large a schema is when its references are written out, which is what a validator of it costs.
//!
//! A few lines are enough for a schema that doubles with every reference. Those of other servers are measured before
//! they are compiled, in a walk that ends at its bounds whatever the schema is.
//!
//! A schema that comes back to itself is never written out: how often it is gone through is up to the arguments. That is
//! harmless as long as each value in them meets one part of the schema. Where two parts look at the same value, as those
//! of `anyOf` do, and both lead back into the circle, the work doubles with every level of the arguments. So on the way
//! from one reference of a circle to the next only what goes down to a value of its own is light.

use serde_json::{Map, Value};

/// Values in a schema with its references written out; more are too many.
const MAX_VALUES: usize = 10_000;
/// How deep they may lie in each other, references included.
const MAX_DEPTH: usize = 400;

/// What may stand beside a reference in a circle: words, which are not looked at when a value is checked.
const WORDS: [&str; 8] =
    ["$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"];

/// Whether a schema of another server may be compiled. One with references whose targets are not told by their path
/// in the same document may not: how much there is behind them is not known here.
pub(crate) fn is_light(schema: &Value) -> bool {
    // Below another id a path begins there, not at the root.
    let id = match schema["$schema"].as_str() {
        Some(dialect) if dialect.contains("draft-04") => "id",
        _ => "$id",
    };
    Walk { root: schema, id, left: MAX_VALUES, within: Vec::new(), circles: 0 }.fits(schema, At::Target, 0)
}

/// What a part of a schema is to the reference that led to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Where it leads.
    Target,
    /// A schema of a value inside of the one that the target is for, which has no other.
    Inside,
    /// Names of such schemas.
    Names,
    /// Anything else: a schema of a value that has more than one.
    Beside,
}

impl At {
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

struct Walk<'s> {
    root: &'s Value,
    /// The member that gives a part of a schema an address of its own.
    id: &'static str,
    left: usize,
    /// References that are being followed: one to itself is not written out again.
    within: Vec<&'s str>,
    /// How often one was to itself.
    circles: usize,
}

impl<'s> Walk<'s> {
    fn fits(&mut self, value: &'s Value, at: At, depth: usize) -> bool {
        if self.left == 0 || depth > MAX_DEPTH {
            return false;
        }
        self.left -= 1;
        let is_root = std::ptr::eq(value, self.root);
        match value {
            Value::Object(members) => members.iter().all(|(name, value)| match (name.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target)) => {
                    self.fits_reference(target, at == At::Inside && is_alone(members), depth)
                }
                (name, Value::String(_)) if name == self.id => is_root,
                _ => self.fits(value, at.member(name), depth + 1),
            }),
            Value::Array(items) => items.iter().all(|item| self.fits(item, at, depth + 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }

    /// `single`: the value that it is for has no other schema. Only then may it lead from one target into a circle.
    fn fits_reference(&mut self, target: &'s str, single: bool, depth: usize) -> bool {
        let circles = self.circles;
        if self.within.contains(&target) {
            self.circles += 1;
        } else if !self.fits_target(target, depth) {
            return false;
        }
        single || self.within.is_empty() || self.circles == circles
    }

    fn fits_target(&mut self, target: &'s str, depth: usize) -> bool {
        let path = target.strip_prefix('#').filter(|path| !path.contains('%'));
        let Some(value) = path.and_then(|path| self.root.pointer(path)) else { return false };
        self.within.push(target);
        let fits = self.fits(value, At::Target, depth + 1);
        self.within.pop();
        fits
    }
}

/// Whether the one reference among these members is all that they ask for.
fn is_alone(members: &Map<String, Value>) -> bool {
    members.keys().filter(|name| !WORDS.contains(&name.as_str())).count() == 1
}

#[cfg(test)]
mod tests;
