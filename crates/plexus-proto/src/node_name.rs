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
mod tests {
    use super::{check, check_labels};

    #[test]
    fn node_names_exclude_ids_routes_and_scope_syntax() {
        for good in ["nas", "a", "9", "my-vps_2", &"x".repeat(63)] {
            check(good).unwrap();
        }
        let id = crate::NodeId::new().to_string();
        for bad in [
            "",
            "NAS",
            "nas.lan",
            "a b",
            "-a",
            "_a",
            "a=b",
            "n\u{e9}",
            "join",
            "invites",
            &id,
            &"x".repeat(64),
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn labels_consist_of_a_valid_key_and_value() {
        let one = |key: &str, value: &str| check_labels(&[(key.to_owned(), value.to_owned())].into());
        one("role", "nas").unwrap();
        one("example.com/zone", "A-1").unwrap();
        for (key, value) in [("", "a"), ("a", ""), ("a=b", "c"), ("a", "b c"), ("a", "b,c")] {
            assert!(one(key, value).is_err(), "{key}={value}");
        }
        assert!(check_labels(&(0..33).map(|n| (n.to_string(), "x".to_owned())).collect()).is_err());
    }
}
