//! Names and labels of nodes: what people, scopes (`node:nas`) and selectors (`role=nas`) call a machine by.

use std::collections::BTreeMap;

use crate::NodeId;

/// Names that stand for something else where a node is named.
const RESERVED: [&str; 2] = ["invites", "join"];
/// Labels of one node.
const MAX_LABELS: usize = 32;

/// Whether a text may be the name of a node. No dots: in a scope they narrow what is before them.
pub fn check(name: &str) -> Result<(), String> {
    let ok = (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b))
        && !name.starts_with(['-', '_']);
    let shown: String = name.chars().take(63).collect();
    if !ok {
        return Err(format!(
            "{shown:?} is not a name of a node: use 1 to 63 lowercase letters, digits, - and _, with a letter or digit first"
        ));
    }
    if RESERVED.contains(&name) {
        return Err(format!("{shown:?} cannot be the name of a node; take another"));
    }
    if name.parse::<NodeId>().is_ok() {
        return Err(format!("{shown:?} looks like the id of a node; take another name"));
    }
    Ok(())
}

/// Whether these may be the labels of a node.
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
    fn a_name_is_one_word_that_no_scope_id_or_route_is_taken_for() {
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
    fn a_label_is_two_words() {
        let one = |key: &str, value: &str| check_labels(&[(key.to_owned(), value.to_owned())].into());
        one("role", "nas").unwrap();
        one("example.com/zone", "A-1").unwrap();
        for (key, value) in [("", "a"), ("a", ""), ("a=b", "c"), ("a", "b c"), ("a", "b,c")] {
            assert!(one(key, value).is_err(), "{key}={value}");
        }
        assert!(check_labels(&(0..33).map(|n| (n.to_string(), "x".to_owned())).collect()).is_err());
    }
}
