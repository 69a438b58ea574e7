//! The configuration file: TOML with known keys and valid values only.

use std::collections::HashSet;
use std::path::Path;

use secrecy::ExposeSecret;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::nearest::nearest;
use super::{Kind, Origin, Problem, SETTINGS, Setting, Value, secret_url};
use crate::env::Environment;
use crate::reference::{self, Resolver};

/// The values of a file.
#[derive(Debug, Default)]
pub(super) struct Layer {
    values: Vec<(&'static str, Value, Origin)>,
    /// Settings that work but should be changed.
    pub(super) warnings: Vec<String>,
}

impl Layer {
    pub(super) fn get(&self, key: &str) -> Option<(Value, Origin)> {
        let (_, value, origin) = self.values.iter().find(|(known, ..)| *known == key)?;
        Some((value.clone(), origin.clone()))
    }
}

/// Reads the file; adds errors to `problems` and skips the affected values.
pub(super) fn read(path: &Path, environment: &Environment, problems: &mut Vec<Problem>) -> Layer {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(source) => {
            problems.push(Problem::Read { path: path.to_owned(), source });
            return Layer::default();
        }
    };
    let mut parser = FileParser {
        path,
        text: &text,
        environment,
        problems,
        broken_lines: HashSet::new(),
        layer: Layer::default(),
    };
    let (table, errors) = DeTable::parse_recoverable(&text);
    for error in errors {
        let line = parser.line(error.span().map_or(0, |span| span.start));
        // Report one error per line: the first that the parser found.
        if parser.broken_lines.insert(line) {
            let written = text.lines().nth(line - 1).unwrap_or_default();
            let message = missing_quotes(written).unwrap_or_else(|| error.message().trim().to_owned());
            parser.problems.push(Problem::Syntax { path: path.to_owned(), line, message });
        }
    }
    parser.table("", table.get_ref());
    parser.layer
}

struct FileParser<'a> {
    path: &'a Path,
    text: &'a str,
    environment: &'a Environment,
    problems: &'a mut Vec<Problem>,
    /// Lines with syntax errors; recovered values on them are meaningless.
    broken_lines: HashSet<usize>,
    layer: Layer,
}

impl FileParser<'_> {
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let key = match prefix {
                "" => name.get_ref().to_string(),
                prefix => format!("{prefix}.{}", name.get_ref()),
            };
            let line = self.line(name.span().start);
            if self.broken_lines.contains(&line) {
                continue;
            }
            if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) {
                self.value(setting, value, line);
            } else if let (true, Some(inner)) = (is_section(&key), value.get_ref().as_table()) {
                self.table(&key, inner);
            } else {
                let nearest = similar_key(&key);
                self.problems.push(Problem::UnknownKey { path: self.path.to_owned(), line, key, nearest });
            }
        }
    }

    fn value(&mut self, setting: &'static Setting, value: &Spanned<DeValue<'_>>, line: usize) {
        let origin = Origin::File { path: self.path.to_owned(), line };
        let read = Value::from_toml(setting.kind, value.get_ref());
        if let Some(secret) = read.as_ref().and_then(Value::secret)
            && secret_url::has_password(&reference::literal(secret.expose_secret()))
        {
            self.layer.warnings.push(format!(
                "{origin}: `{}` contains a password in plain text; remove it from the file and set the variable {} \
                 instead",
                setting.key, setting.variable
            ));
        }
        match read.map(|read| self.resolve_references(read)) {
            Some(Ok(read)) => self.layer.values.push((setting.key, read, origin)),
            Some(Err(message)) => {
                self.problems.push(Problem::Reference { origin, key: setting.key, message });
            }
            None => {
                let written = self.text.get(value.span()).unwrap_or_default();
                self.problems.push(setting.refuse(origin, written.to_owned()));
            }
        }
    }

    /// Resolves references in a secret: `${env:NAME}` reads a variable, `${file:PATH}` a file.
    fn resolve_references(&self, value: Value) -> Result<Value, String> {
        let Some(secret) = value.secret() else { return Ok(value) };
        let resolver = Resolver::new(self.environment, "");
        let resolved = resolver.resolve(secret.expose_secret()).map_err(|error| error.to_string())?;
        Ok(Value::Secret(resolved.trim().into()))
    }

    fn line(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or_default();
        1 + before.bytes().filter(|byte| *byte == b'\n').count()
    }
}

/// The error for a line whose value only lacks quotes. Omits the value, which may be secret.
fn missing_quotes(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    let is_text = |setting: &Setting| matches!(setting.kind, Kind::Text | Kind::Secret);
    let has_same_name = |setting: &&Setting| setting.key.rsplit('.').next() == key.rsplit('.').next();
    let quoted = value.starts_with(['"', '\'']);
    let needs_quotes = !value.is_empty() && !quoted && SETTINGS.iter().filter(has_same_name).any(is_text);
    needs_quotes.then(|| format!("text needs quotes: {key} = \"…\""))
}

fn is_section(key: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.section() == key)
}

/// The key of the same name in another section, or the most similarly spelt one.
fn similar_key(key: &str) -> Option<&'static str> {
    let name = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
    let last = key.rsplit('.').next().unwrap_or(key);
    let same_name = SETTINGS.iter().map(|setting| setting.key).find(|known| name(known) == last);
    let known = || SETTINGS.iter().flat_map(|setting| [setting.key, setting.section()]);
    same_name.or_else(|| nearest(key, known().filter(|known| !known.is_empty()))).or_else(|| {
        // Misspelt, and in no section or the wrong one.
        let similar_name = nearest(last, SETTINGS.iter().map(|setting| name(setting.key)))?;
        SETTINGS.iter().map(|setting| setting.key).find(|known| name(known) == similar_name)
    })
}
