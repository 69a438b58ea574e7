//! The resources and prompts of one server, as last listed.
//!
//! Servers are untrusted: each entry is size-limited and normalized to what strict clients accept. An unusable entry
//! is left out with a warning, without affecting the others.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::template::Template;

/// A definition, as a server wrote it.
pub type Entry = Map<String, Value>;

/// Most entries of a list; the rest is left out.
const MAX_RESOURCES: usize = 5_000;
const MAX_TEMPLATES: usize = 500;
const MAX_PROMPTS: usize = 1_000;
/// Longest URI and longest name, in bytes.
const MAX_URI: usize = 2_048;
const MAX_NAME: usize = 256;
/// Largest definition, in bytes.
const MAX_ENTRY: usize = 64 << 10;
/// Most warnings of all lists; only the number of the rest is reported.
const MAX_WARNINGS: usize = 10;

/// The lists of a server. None if the server does not support that kind.
#[derive(Debug, Default)]
pub struct OfferLists {
    pub resources: Option<Vec<Entry>>,
    pub templates: Option<Vec<Entry>>,
    pub prompts: Option<Vec<Entry>>,
    /// Whether it announces changes of single resources.
    pub subscribe: bool,
    pub completions: bool,
}

#[derive(Debug, Default, PartialEq)]
pub struct ServerOffer {
    pub resources: Option<Resources>,
    pub prompts: Option<Vec<Entry>>,
    pub subscribe: bool,
    pub completions: bool,
    pub warnings: Vec<String>,
}

#[derive(Debug, Default, PartialEq)]
pub struct Resources {
    pub listed: Vec<Entry>,
    pub templates: Vec<Entry>,
    uris: BTreeSet<String>,
    /// The templates that can be parsed.
    parsed_templates: Vec<Template>,
}

impl ServerOffer {
    pub fn new(lists: OfferLists) -> Self {
        let OfferLists { resources, templates, prompts, subscribe, completions } = lists;
        let mut warnings = Vec::new();
        let resources = (resources.is_some() || templates.is_some()).then(|| {
            let listed = usable_entries(resources.unwrap_or_default(), &RESOURCES, &mut warnings);
            let templates = usable_entries(templates.unwrap_or_default(), &TEMPLATES, &mut warnings);
            Resources {
                uris: listed.iter().map(|entry| text(entry, "uri").to_owned()).collect(),
                parsed_templates: templates
                    .iter()
                    .filter_map(|entry| Template::parse(text(entry, "uriTemplate")))
                    .collect(),
                listed,
                templates,
            }
        });
        let prompts = prompts.map(|prompts| usable_entries(prompts, &PROMPTS, &mut warnings));
        let more = warnings.len().saturating_sub(MAX_WARNINGS);
        warnings.truncate(MAX_WARNINGS);
        if more > 0 {
            warnings.push(format!("and {more} more like these"));
        }
        Self { resources, prompts, subscribe, completions, warnings }
    }

    /// The current lists, for those that stay when another list changes.
    pub fn lists(&self) -> OfferLists {
        OfferLists {
            resources: self.resources.as_ref().map(|resources| resources.listed.clone()),
            templates: self.resources.as_ref().map(|resources| resources.templates.clone()),
            prompts: self.prompts.clone(),
            subscribe: self.subscribe,
            completions: self.completions,
        }
    }

    /// Whether the server lists this URI, as a resource or as a template.
    pub(super) fn lists_uri(&self, uri: &str) -> bool {
        self.resources.as_ref().is_some_and(|resources| {
            resources.uris.contains(uri)
                || resources.templates.iter().any(|entry| text(entry, "uriTemplate") == uri)
        })
    }

    /// The literal length of the most specific template that matches the URI.
    pub(super) fn best_match(&self, uri: &str) -> Option<usize> {
        let resources = self.resources.as_ref();
        let templates = resources.map(|resources| resources.parsed_templates.as_slice()).unwrap_or_default();
        templates.iter().filter(|template| template.matches(uri)).map(Template::literal_length).max()
    }
}

/// A string member of a definition; empty if it is missing or not a string.
pub(super) fn text<'e>(entry: &'e Entry, member: &str) -> &'e str {
    entry.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// The limits of a list.
struct ListRules {
    kind: &'static str,
    /// The member that identifies an entry, and its longest value in bytes.
    key: &'static str,
    max_key_bytes: usize,
    max_entries: usize,
}

const RESOURCES: ListRules =
    ListRules { kind: "resource", key: "uri", max_key_bytes: MAX_URI, max_entries: MAX_RESOURCES };
const TEMPLATES: ListRules = ListRules {
    kind: "resource template",
    key: "uriTemplate",
    max_key_bytes: MAX_URI,
    max_entries: MAX_TEMPLATES,
};
const PROMPTS: ListRules =
    ListRules { kind: "prompt", key: "name", max_key_bytes: MAX_NAME, max_entries: MAX_PROMPTS };

/// The usable entries, without duplicates.
fn usable_entries(entries: Vec<Entry>, rules: &ListRules, warnings: &mut Vec<String>) -> Vec<Entry> {
    let mut keys = BTreeSet::new();
    let mut usable = Vec::new();
    let count = entries.len();
    for mut entry in entries {
        let key = text(&entry, rules.key).to_owned();
        let start: String = key.chars().take(40).collect();
        let why = if key.is_empty() {
            format!("it lists a {} without {:?}, which is left out", rules.kind, rules.key)
        } else if key.len() > rules.max_key_bytes {
            format!("{start:?}… has more than {} bytes and is left out", rules.max_key_bytes)
        } else if serde_json::to_vec(&entry).map_or(usize::MAX, |json| json.len()) > MAX_ENTRY {
            format!("the definition of {start:?} has more than {MAX_ENTRY} bytes and is left out")
        } else if usable.len() >= rules.max_entries {
            warnings
                .push(format!("it lists {count} {}s; the first {} are used", rules.kind, rules.max_entries));
            break;
        } else if !keys.insert(key.clone()) {
            format!("{start:?} is listed twice; the first one is used")
        } else {
            remove_invalid_members(&mut entry, &key);
            usable.push(entry);
            continue;
        };
        warnings.push(why);
    }
    usable
}

/// Removes members of the wrong type: a strict client rejects the whole list because of one such entry.
fn remove_invalid_members(entry: &mut Entry, key: &str) {
    type TypeCheck = fn(&Value) -> bool;
    const MEMBERS: [(&str, TypeCheck); 9] = [
        ("name", Value::is_string),
        ("title", Value::is_string),
        ("description", Value::is_string),
        ("mimeType", Value::is_string),
        ("annotations", Value::is_object),
        ("icons", Value::is_array),
        ("size", Value::is_u64),
        ("arguments", Value::is_array),
        ("_meta", Value::is_object),
    ];
    for (member, has_type) in MEMBERS {
        if entry.get(member).is_some_and(|value| !has_type(value)) {
            entry.remove(member);
        }
    }
    entry.entry("name").or_insert_with(|| key.into());
    if let Some(Value::Array(arguments)) = entry.get_mut("arguments") {
        arguments.retain(|argument| argument["name"].is_string());
        for argument in arguments.iter_mut().filter_map(Value::as_object_mut) {
            argument.retain(|member, value| match member.as_str() {
                "title" | "description" => value.is_string(),
                "required" => value.is_boolean(),
                _ => true,
            });
        }
    }
    if let Some(Value::Array(icons)) = entry.get_mut("icons") {
        icons.retain(|icon| icon["src"].is_string());
    }
}

#[cfg(test)]
mod tests;
