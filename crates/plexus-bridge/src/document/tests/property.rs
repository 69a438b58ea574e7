//! Files of any layout: what is put in comes out again, and nothing else ever has another value.

use proptest::prelude::*;
use serde_json::Value;

use super::ours;
use crate::document::Syntax;

const CASES: u32 = 256;
/// Behind which the entry goes, in each format.
const PATH: [&str; 2] = ["servers", "plexus"];

/// How a text is laid out.
#[derive(Debug, Clone)]
struct Layout {
    newline: &'static str,
    indent: &'static str,
    comments: bool,
    trailing_commas: bool,
    mark: bool,
    last_line_end: bool,
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
        mark: flags[2],
        last_line_end: flags[3],
        one_line: flags[4],
    })
}

/// Settings of an agent, with servers or without, before, between and behind the rest.
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
    // One of our name may be there already.
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
    fn written(&self, syntax: Syntax, value: &Value) -> String {
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
        let (mark, end) =
            (if self.mark { "\u{feff}" } else { "" }, if self.last_line_end { self.newline } else { "" });
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
                plain.push_str(&format!("{key} = {}{remark}{newline}", braces(value)));
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

/// A value of TOML on one line.
fn braces(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| format!("{} = {}", Value::from(key.as_str()), braces(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(braces).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// Put in and taken out, also with a change elsewhere in between.
fn round_trip(
    syntax: Syntax,
    layout: &Layout,
    before: &Value,
    elsewhere: &Value,
) -> Result<(), TestCaseError> {
    let text = layout.written(syntax, before);
    let edited = match syntax.set(&text, &PATH, &ours()) {
        Ok(edited) => edited,
        Err(error) => return Err(TestCaseError::fail(format!("{text:?}: {error}"))),
    };
    prop_assert_eq!(syntax.get(&edited.text, &PATH).unwrap(), Some(ours()));
    let left = syntax.undo(&edited.text, &PATH, &edited.undo).unwrap();
    prop_assert_eq!(&left, &text);
    // Somebody else sets a value of their own, with the same care.
    let other = ["zz_theirs"];
    let theirs = syntax.set(&text, &other, elsewhere);
    let both = syntax.set(&edited.text, &other, elsewhere);
    if let (Ok(theirs), Ok(both)) = (theirs, both) {
        let left = syntax.undo(&both.text, &PATH, &edited.undo).unwrap();
        prop_assert_eq!(
            syntax.value(&left).unwrap(),
            syntax.value(&theirs.text).unwrap(),
            "{:?} became {:?}",
            both.text,
            left
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn toml_comes_out_as_it_went_in(layout in layout(), value in settings()) {
        round_trip(Syntax::Toml, &layout, &value, &serde_json::json!({ "x": 1 }))?;
    }

    #[test]
    fn json_comes_out_as_it_went_in(layout in layout(), value in settings()) {
        round_trip(Syntax::Json, &layout, &value, &serde_json::json!([1, { "x": 1 }]))?;
    }

    #[test]
    fn jsonc_comes_out_as_it_went_in(layout in layout(), value in settings()) {
        round_trip(Syntax::Jsonc, &layout, &value, &serde_json::json!([1, { "x": 1 }]))?;
    }

    #[test]
    fn yaml_comes_out_as_it_went_in(layout in layout(), value in settings()) {
        round_trip(Syntax::Yaml, &layout, &value, &serde_json::json!({ "x": 1 }))?;
    }

    /// Any text at all: a refusal, or the same values in everything but the entry.
    #[test]
    fn garbage_is_never_damaged(text in garbage()) {
        for syntax in [Syntax::Toml, Syntax::Json, Syntax::Jsonc, Syntax::Yaml] {
            let Ok(edited) = syntax.set(&text, &PATH, &ours()) else { continue };
            let (mut before, mut after) = (syntax.value(&text).unwrap(), syntax.value(&edited.text).unwrap());
            prop_assert_eq!(after.pointer("/servers/plexus"), Some(&ours()), "{:?}", syntax);
            for value in [&mut before, &mut after] {
                take_entry(value);
            }
            prop_assert_eq!(before, after, "{:?}", syntax);
            let left = syntax.undo(&edited.text, &PATH, &edited.undo);
            prop_assert_eq!(left, Ok(text.clone()), "{:?} by {:?}", syntax, edited);
        }
    }
}

/// The entry, and the servers where they are nothing but its place.
fn take_entry(value: &mut Value) {
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

/// Pieces of all formats in any order, alone or thrown into a good text.
fn garbage() -> impl Strategy<Value = String> {
    let pieces =
        prop::collection::vec(prop::sample::select(PIECES), 0..14).prop_map(|pieces| pieces.concat());
    let syntax =
        prop::sample::select(vec![Syntax::Toml, Syntax::Json, Syntax::Jsonc, Syntax::Yaml, Syntax::Yaml]);
    let places =
        prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(PIECES), 0..3_usize), 1..4);
    let broken = (layout(), settings(), syntax, places).prop_map(|(layout, value, syntax, places)| {
        let mut letters: Vec<char> = layout.written(syntax, &value).chars().collect();
        for (place, piece, cut) in places {
            let at = place.index(letters.len() + 1);
            let end = (at + cut).min(letters.len());
            letters.splice(at..end, piece.chars());
        }
        letters.into_iter().collect()
    });
    prop_oneof![pieces, broken]
}
