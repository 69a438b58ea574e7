//! Node names and labels, as used by people, scopes (`node:nas`) and selectors (`role=nas`).

use std::collections::BTreeMap;

use crate::NodeId;

/// Path segments with another meaning in `/api/v1/nodes/…`.
const RESERVED: [&str; 2] = ["invites", "join"];
/// Maximum number of labels per node.
const MAX_LABELS: usize = 32;

/// Checks that a text is a valid node name. Dots are not allowed: in a scope they separate a resource from
/// its parts.
pub fn check(name: &str) -> Result<(), String> {
    let ok = (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b))
        && !name.starts_with(['-', '_']);
    let shown: String = name.chars().take(63).collect();
    if !ok {
        return Err(format!(
            "{shown:?} is not a valid node name: use 1 to 63 lowercase letters, digits, - and _, with a letter or digit first"
        ));
    }
    if RESERVED.contains(&name) {
        return Err(format!("{shown:?} is reserved and cannot be a node name; choose another name"));
    }
    if name.parse::<NodeId>().is_ok() {
        return Err(format!("{shown:?} has the form of a node id; choose another name"));
    }
    Ok(())
}

/// Checks that these are valid node labels.
pub fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), String> {
    if labels.len() > MAX_LABELS {
        return Err(format!("a node has at most {MAX_LABELS} labels"));
    }
    for (key, value) in labels {
        let word = |text: &str| {
            (1..=63).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._/-".contains(&b))
        };
        if !word(key) || !word(value) {
            let shown: String = format!("{key}={value}").chars().take(130).collect();
            return Err(format!(
                "{shown:?} is not a label: write key=value, each of 1 to 63 letters, digits and . _ - /"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
