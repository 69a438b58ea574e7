//! What one server offers beside its tools, as it listed it last.
//!
//! What a server says is foreign: each entry is bounded and brought into the form that clients insist on, and one that
//! cannot be used is left out with a warning, alone.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::template::Template;

/// A definition, as a server wrote it.
pub type Entry = Map<String, Value>;

/// Entries of one list; more are left out, the last of them.
const MAX_RESOURCES: usize = 5_000;
const MAX_TEMPLATES: usize = 500;
const MAX_PROMPTS: usize = 1_000;
/// Longest URI and longest name, in bytes.
const MAX_URI: usize = 2_048;
const MAX_NAME: usize = 256;
/// Largest definition, in bytes.
const MAX_ENTRY: usize = 64 << 10;
/// Warnings kept of all lists; of more, only their number.
const MAX_WARNINGS: usize = 10;

/// What a server lists. None: it has nothing of the kind.
#[derive(Debug, Default)]
pub struct Lists {
    pub resources: Option<Vec<Entry>>,
    pub templates: Option<Vec<Entry>>,
    pub prompts: Option<Vec<Entry>>,
    /// It tells of changes of single resources.
    pub subscribe: bool,
    pub completions: bool,
}

#[derive(Debug, Default, PartialEq)]
pub struct Offer {
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
    /// Of those templates that can be read.
    fitting: Vec<Template>,
}

impl Offer {
    pub fn new(lists: Lists) -> Self {
        let Lists { resources, templates, prompts, subscribe, completions } = lists;
        let mut warnings = Vec::new();
        let resources = (resources.is_some() || templates.is_some()).then(|| {
            let listed = kept(resources.unwrap_or_default(), &RESOURCES, &mut warnings);
            let templates = kept(templates.unwrap_or_default(), &TEMPLATES, &mut warnings);
            Resources {
                uris: listed.iter().map(|entry| text(entry, "uri").to_owned()).collect(),
                fitting: templates
                    .iter()
                    .filter_map(|entry| Template::parse(text(entry, "uriTemplate")))
                    .collect(),
                listed,
                templates,
            }
        });
        let prompts = prompts.map(|prompts| kept(prompts, &PROMPTS, &mut warnings));
        let more = warnings.len().saturating_sub(MAX_WARNINGS);
        warnings.truncate(MAX_WARNINGS);
        if more > 0 {
            warnings.push(format!("and {more} more like these"));
        }
        Self { resources, prompts, subscribe, completions, warnings }
    }

    /// What it was made from, for lists that are to stay when others change.
    pub fn lists(&self) -> Lists {
        Lists {
            resources: self.resources.as_ref().map(|resources| resources.listed.clone()),
            templates: self.resources.as_ref().map(|resources| resources.templates.clone()),
            prompts: self.prompts.clone(),
            subscribe: self.subscribe,
            completions: self.completions,
        }
    }

    /// Whether the server lists this, as a resource or as a template.
    pub(super) fn lists_uri(&self, uri: &str) -> bool {
        self.resources.as_ref().is_some_and(|resources| {
            resources.uris.contains(uri)
                || resources.templates.iter().any(|entry| text(entry, "uriTemplate") == uri)
        })
    }

    /// How much the template says that a URI fits, of several the one that says most.
    pub(super) fn fits(&self, uri: &str) -> Option<usize> {
        let fitting =
            self.resources.as_ref().map(|resources| resources.fitting.as_slice()).unwrap_or_default();
        fitting.iter().filter(|template| template.fits(uri)).map(Template::fixed).max()
    }
}

/// A member of a definition that is a text; empty where it is none.
pub(super) fn text<'e>(entry: &'e Entry, member: &str) -> &'e str {
    entry.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// What is asked of the entries of a list.
struct Kind {
    what: &'static str,
    /// The member that tells them apart, and how long it may be.
    key: &'static str,
    longest: usize,
    most: usize,
}

const RESOURCES: Kind = Kind { what: "a resource", key: "uri", longest: MAX_URI, most: MAX_RESOURCES };
const TEMPLATES: Kind =
    Kind { what: "a resource template", key: "uriTemplate", longest: MAX_URI, most: MAX_TEMPLATES };
const PROMPTS: Kind = Kind { what: "a prompt", key: "name", longest: MAX_NAME, most: MAX_PROMPTS };

/// Those entries that can be used, each once.
fn kept(entries: Vec<Entry>, kind: &Kind, warnings: &mut Vec<String>) -> Vec<Entry> {
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    let count = entries.len();
    for mut entry in entries {
        let key = text(&entry, kind.key).to_owned();
        let start: String = key.chars().take(40).collect();
        let why = if key.is_empty() {
            format!("it lists {} without {:?}, which is left out", kind.what, kind.key)
        } else if key.len() > kind.longest {
            format!("{start:?}… has more than {} bytes and is left out", kind.longest)
        } else if serde_json::to_vec(&entry).map_or(usize::MAX, |json| json.len()) > MAX_ENTRY {
            format!("the definition of {start:?} has more than {MAX_ENTRY} bytes and is left out")
        } else if kept.len() >= kind.most {
            warnings.push(format!("it lists {count} times {}; the first {} are used", kind.what, kind.most));
            break;
        } else if !seen.insert(key.clone()) {
            format!("{start:?} is listed twice; the first one is used")
        } else {
            clean(&mut entry, &key);
            kept.push(entry);
            continue;
        };
        warnings.push(why);
    }
    kept
}

/// Drops what has another type than it should: a client that is strict about one entry refuses the whole list for it.
fn clean(entry: &mut Entry, key: &str) {
    type Right = fn(&Value) -> bool;
    const MEMBERS: [(&str, Right); 9] = [
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
    for (member, right) in MEMBERS {
        if entry.get(member).is_some_and(|value| !right(value)) {
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
mod tests {
    use serde_json::json;

    use super::{Entry, Lists, MAX_TEMPLATES, Offer};

    fn entries(json: serde_json::Value) -> Option<Vec<Entry>> {
        json.as_array().map(|all| all.iter().filter_map(|one| one.as_object().cloned()).collect())
    }

    #[test]
    fn what_cannot_be_used_is_left_out_alone() {
        let offer = Offer::new(Lists {
            resources: entries(json!([
                { "uri": "a://1", "name": "one", "size": "large", "description": 3, "title": "One" },
                { "uri": "a://1", "name": "again" },
                { "name": "without" },
                { "uri": format!("a://{}", "x".repeat(3_000)), "name": "long" },
                { "uri": "a://2", "description": "y".repeat(70_000) },
                { "uri": "a://3" },
            ])),
            ..Lists::default()
        });
        let resources = offer.resources.expect("resources");
        let expected = json!([
            { "uri": "a://1", "name": "one", "title": "One" },
            { "uri": "a://3", "name": "a://3" },
        ]);
        assert_eq!(json!(resources.listed), expected);
        assert_eq!(offer.warnings.len(), 4, "{:?}", offer.warnings);
        assert!(offer.prompts.is_none());
    }

    #[test]
    fn arguments_of_prompts_keep_what_clients_can_read() {
        let offer = Offer::new(Lists {
            prompts: entries(json!([
                { "name": "p", "arguments": [{ "name": "a", "required": "yes" }, { "required": true }, 3] },
                { "name": "q", "arguments": {} },
            ])),
            ..Lists::default()
        });
        let expected = json!([{ "name": "p", "arguments": [{ "name": "a" }] }, { "name": "q" }]);
        assert_eq!(json!(offer.prompts), expected);
    }

    #[test]
    fn a_list_has_an_end() {
        let many: Vec<_> =
            (0..MAX_TEMPLATES + 9).map(|n| json!({ "uriTemplate": format!("a://{n}/{{x}}") })).collect();
        let offer = Offer::new(Lists { templates: entries(json!(many)), ..Lists::default() });
        assert_eq!(offer.warnings.len(), 1, "{:?}", offer.warnings);
        let again = Offer::new(offer.lists());
        assert_eq!(again.resources, offer.resources);
        assert_eq!(offer.resources.expect("resources").templates.len(), MAX_TEMPLATES);
    }
}
