//! Property tests over files of any layout: an undone edit restores the file, and no other value ever changes.

use proptest::prelude::*;
use serde_json::Value;

use super::ours;
use crate::document::Syntax;

const CASES: u32 = 256;
/// Path of the entry, in each format.
const PATH: [&str; 2] = ["servers", "plexus"];

/// The layout of a text.
#[derive(Debug, Clone)]
struct Layout {
    newline: &'static str,
    indent: &'static str,
    comments: bool,
    trailing_commas: bool,
    byte_order_mark: bool,
    final_newline: bool,
    one_line: bool,
}

fn layout() -> impl Strategy<Value = Layout> {
    let newline = prop_oneof![Just("\n"), Just("\r\n")];
    let indent = prop_oneof![Just("  "), Just("    "), Just("\t"), Just("   ")];
    (newline, indent, any::<[bool; 5]>()).prop_map(|(newline, indent, flags)| Layout {
        newline,
        indent,
        comments: flags[0],
        trailing_commas: flags[1],
        byte_order_mark: flags[2],
        final_newline: flags[3],
        one_line: flags[4],
    })
}

/// Settings of an agent, with or without servers among them.
fn settings() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~é☃]{0,12}".prop_map(Value::from),
    ];
    let key = "[a-zA-Z][a-z_-]{0,6}|[a-z]\\.[a-z]";
    let node = leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4).prop_map(object),
        ]
    });
    let fields = prop::collection::vec((key, node.clone()), 0..4);
    // An entry with our name may exist already.
    let name = prop_oneof![3 => key, 1 => Just(PATH[1].to_owned())];
    let servers = prop::option::of(prop::collection::vec((name, node), 0..3));
    (fields.clone(), servers, fields).prop_map(|(mut first, servers, last)| {
        if let Some(servers) = servers {
            first.push((PATH[0].to_owned(), object(servers)));
        }
        first.extend(last.into_iter().filter(|(key, _)| key != PATH[0]));
        object(first)
    })
}

fn object(fields: Vec<(String, Value)>) -> Value {
    fields.into_iter().collect()
}

impl Layout {
    fn render(&self, syntax: Syntax, value: &Value) -> String {
        let mut text = match syntax {
            Syntax::Json | Syntax::Jsonc => self.json(value, 0, syntax == Syntax::Jsonc),
            Syntax::Toml => self.toml(value),
            Syntax::Yaml => self.yaml(value, 0),
        };
        if self.comments && syntax != Syntax::Json {
            let sign = if syntax == Syntax::Jsonc { "//" } else { "#" };
            text = format!("{sign} top{}{text}", self.newline);
        }
        text.truncate(text.trim_end().len());
        let mark = if self.byte_order_mark { "\u{feff}" } else { "" };
        let end = if self.final_newline { self.newline } else { "" };
        format!("{mark}{text}{end}")
    }

    fn json(&self, value: &Value, depth: usize, loose: bool) -> String {
        let items: Vec<String> = match value {
            Value::Object(fields) => fields
                .iter()
                .map(|(key, value)| {
                    format!("{}: {}", Value::from(key.as_str()), self.json(value, depth + 1, loose))
                })
                .collect(),
            Value::Array(items) => items.iter().map(|item| self.json(item, depth + 1, loose)).collect(),
            other => return other.to_string(),
        };
        let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
        let comma = if loose && self.trailing_commas && !items.is_empty() { "," } else { "" };
        if self.one_line || items.is_empty() {
            return format!("{open}{}{comma}{close}", items.join(", "));
        }
        let (inner, outer) = (self.indent.repeat(depth + 1), self.indent.repeat(depth));
        let remark = if loose && self.comments { " // it's \"so\" {" } else { "" };
        let between = format!(",{remark}{}{inner}", self.newline);
        let newline = self.newline;
        format!("{open}{newline}{inner}{}{comma}{remark}{newline}{outer}{close}", items.join(&between))
    }

    fn toml(&self, value: &Value) -> String {
        let (mut plain, mut tables) = (String::new(), String::new());
        self.toml_table(value, "", &mut plain, &mut tables);
        format!("{plain}{tables}")
    }

    fn toml_table(&self, value: &Value, name: &str, plain: &mut String, tables: &mut String) {
        let (newline, remark) = (self.newline, if self.comments { " # it's \"so\"" } else { "" });
        for (key, value) in value.as_object().into_iter().flatten() {
            let key = Value::from(key.as_str());
            if !value.is_object() || self.one_line {
                plain.push_str(&format!("{key} = {}{remark}{newline}", inline_toml(value)));
                continue;
            }
            let name = if name.is_empty() { key.to_string() } else { format!("{name}.{key}") };
            let (mut inner, mut below) = (String::new(), String::new());
            self.toml_table(value, &name, &mut inner, &mut below);
            tables.push_str(&format!("{newline}[{name}]{remark}{newline}{inner}{below}"));
        }
    }

    fn yaml(&self, value: &Value, depth: usize) -> String {
        let indent = " ".repeat(self.indent.len().max(2) * depth);
        let remark = if self.comments { " # it's \"so\"" } else { "" };
        let mut text = String::new();
        for (key, value) in value.as_object().into_iter().flatten() {
            let key = Value::from(key.as_str());
            match value {
                Value::Object(fields) if !fields.is_empty() && !self.one_line => {
                    let inner = self.yaml(value, depth + 1);
                    text.push_str(&format!("{indent}{key}:{remark}{}{inner}", self.newline));
                }
                other => text.push_str(&format!("{indent}{key}: {other}{remark}{}", self.newline)),
            }
        }
        text
    }
}

/// A TOML value on one line.
fn inline_toml(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| format!("{} = {}", Value::from(key.as_str()), inline_toml(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(inline_toml).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// Inserts the entry and undoes that, directly and after a change elsewhere.
fn round_trip(
    syntax: Syntax,
    layout: &Layout,
    before: &Value,
    other_value: &Value,
) -> Result<(), TestCaseError> {
    let text = layout.render(syntax, before);
    let edited = match syntax.set(&text, &PATH, &ours()) {
        Ok(edited) => edited,
        Err(error) => return Err(TestCaseError::fail(format!("{text:?}: {error}"))),
    };
    prop_assert_eq!(syntax.get(&edited.text, &PATH).unwrap(), Some(ours()));
    let restored = syntax.undo(&edited.text, &PATH, &edited.undo).unwrap();
    prop_assert_eq!(&restored, &text);
    // Somebody else sets another value.
    let other = ["zz_theirs"];
    let theirs = syntax.set(&text, &other, other_value);
    let both = syntax.set(&edited.text, &other, other_value);
    if let (Ok(theirs), Ok(both)) = (theirs, both) {
        let restored = syntax.undo(&both.text, &PATH, &edited.undo).unwrap();
        prop_assert_eq!(
            syntax.value(&restored).unwrap(),
            syntax.value(&theirs.text).unwrap(),
            "{:?} became {:?}",
            both.text,
            restored
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn toml_round_trips(layout in layout(), value in settings()) {
        round_trip(Syntax::Toml, &layout, &value, &serde_json::json!({ "x": 1 }))?;
    }

    #[test]
    fn json_round_trips(layout in layout(), value in settings()) {
        round_trip(Syntax::Json, &layout, &value, &serde_json::json!([1, { "x": 1 }]))?;
    }

    #[test]
    fn jsonc_round_trips(layout in layout(), value in settings()) {
        round_trip(Syntax::Jsonc, &layout, &value, &serde_json::json!([1, { "x": 1 }]))?;
    }

    #[test]
    fn yaml_round_trips(layout in layout(), value in settings()) {
        round_trip(Syntax::Yaml, &layout, &value, &serde_json::json!({ "x": 1 }))?;
    }

    /// Any text is refused, or keeps all values except the entry.
    #[test]
    fn arbitrary_text_keeps_all_other_values(text in arbitrary_text()) {
        for syntax in [Syntax::Toml, Syntax::Json, Syntax::Jsonc, Syntax::Yaml] {
            let Ok(edited) = syntax.set(&text, &PATH, &ours()) else { continue };
            let (mut before, mut after) = (syntax.value(&text).unwrap(), syntax.value(&edited.text).unwrap());
            prop_assert_eq!(after.pointer("/servers/plexus"), Some(&ours()), "{:?}", syntax);
            for value in [&mut before, &mut after] {
                remove_entry(value);
            }
            prop_assert_eq!(before, after, "{:?}", syntax);
            let restored = syntax.undo(&edited.text, &PATH, &edited.undo);
            prop_assert_eq!(restored, Ok(text.clone()), "{:?}: {:?}", syntax, edited);
        }
    }
}

/// Removes the entry, and the table of servers if it is then empty.
fn remove_entry(value: &mut Value) {
    let servers = value.get_mut(PATH[0]);
    if let Some(servers) = servers.and_then(Value::as_object_mut) {
        servers.remove(PATH[1]);
    }
    if value.get(PATH[0]).is_some_and(|servers| servers.is_null() || servers == &serde_json::json!({})) {
        value.as_object_mut().unwrap().remove(PATH[0]);
    }
}

const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "[[",
    "]]",
    ":",
    ": ",
    ",",
    "=",
    " = ",
    "\"",
    "'",
    "'''",
    "\"\"\"",
    "#",
    " # ",
    "//",
    "/*",
    "*/",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\t",
    " ",
    "  ",
    "- ",
    "? ",
    "|\n",
    ">\n",
    "&a ",
    "*a ",
    "!!map ",
    "---\n",
    "...\n",
    "servers",
    "\"servers\"",
    "plexus",
    "\"plexus\"",
    "[servers]\n",
    "[servers.plexus]\n",
    "servers:\n",
    "servers: ",
    "  plexus:\n",
    "servers = {",
    "\"servers\": {",
    "a = 1\n",
    "a: 1\n",
    "\"a\": 1",
    "1",
    "true",
    "null",
    "~",
    "\u{feff}",
    "é",
    "\\",
    ".",
    "servers.plexus.x = 1\n",
    "x: {",
    "%Y",
    "\u{85}",
    "\u{2028}",
    "\0",
];

/// Pieces of all formats in any order, alone or inserted into a valid text.
fn arbitrary_text() -> impl Strategy<Value = String> {
    let pieces =
        prop::collection::vec(prop::sample::select(PIECES), 0..14).prop_map(|pieces| pieces.concat());
    let syntax =
        prop::sample::select(vec![Syntax::Toml, Syntax::Json, Syntax::Jsonc, Syntax::Yaml, Syntax::Yaml]);
    let edits =
        prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(PIECES), 0..3_usize), 1..4);
    let broken = (layout(), settings(), syntax, edits).prop_map(|(layout, value, syntax, edits)| {
        let mut chars: Vec<char> = layout.render(syntax, &value).chars().collect();
        for (index, piece, removed) in edits {
            let start = index.index(chars.len() + 1);
            let end = (start + removed).min(chars.len());
            chars.splice(start..end, piece.chars());
        }
        chars.into_iter().collect()
    });
    prop_oneof![pieces, broken]
}
