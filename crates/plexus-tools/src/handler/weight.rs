//! How large a schema is when its references are written out, which is what a validator of it costs.
//!
//! A few lines are enough for a schema that doubles with every reference. Those of other servers are measured before
//! they are compiled, in a walk that ends at its bounds whatever the schema is.

use serde_json::Value;

/// Values in a schema with its references written out; more are too many.
const MAX_VALUES: usize = 10_000;
/// How deep they may lie in each other, references included.
const MAX_DEPTH: usize = 400;

/// Whether a schema of another server may be compiled. One with references whose targets are not told by their path
/// in the same document may not: how much there is behind them is not known here.
pub(crate) fn is_light(schema: &Value) -> bool {
    // Below another id a path begins there, not at the root.
    let id = match schema["$schema"].as_str() {
        Some(dialect) if dialect.contains("draft-04") => "id",
        _ => "$id",
    };
    Walk { root: schema, id, left: MAX_VALUES, within: Vec::new() }.fits(schema, 0)
}

struct Walk<'s> {
    root: &'s Value,
    /// The member that gives a part of a schema an address of its own.
    id: &'static str,
    left: usize,
    /// References that are being followed: one to itself is not written out again.
    within: Vec<&'s str>,
}

impl<'s> Walk<'s> {
    fn fits(&mut self, value: &'s Value, depth: usize) -> bool {
        if self.left == 0 || depth > MAX_DEPTH {
            return false;
        }
        self.left -= 1;
        let is_root = std::ptr::eq(value, self.root);
        match value {
            Value::Object(members) => members.iter().all(|(name, value)| match (name.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target)) => {
                    self.fits_reference(target, depth)
                }
                (name, Value::String(_)) if name == self.id => is_root,
                _ => self.fits(value, depth + 1),
            }),
            Value::Array(items) => items.iter().all(|item| self.fits(item, depth + 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }

    fn fits_reference(&mut self, target: &'s str, depth: usize) -> bool {
        if self.within.contains(&target) {
            return true;
        }
        let path = target.strip_prefix('#').filter(|path| !path.contains('%'));
        let Some(value) = path.and_then(|path| self.root.pointer(path)) else { return false };
        self.within.push(target);
        let fits = self.fits(value, depth + 1);
        self.within.pop();
        fits
    }
}

#[cfg(test)]
mod tests;
