//! An uninterpreted setting value, as a file, a variable or a flag provides it.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use super::secret_url;

/// Type of a value; determines how a variable's text is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// A non-negative whole number.
    Number,
    Switch,
    /// Comma-separated in a variable.
    List,
    /// Text that is redacted when shown.
    Secret,
}

#[derive(Debug, Clone)]
pub enum Value {
    Text(String),
    Number(u64),
    Switch(bool),
    List(Vec<String>),
    Secret(SecretString),
}

impl Value {
    /// Parses the text of a variable or a flag.
    pub(super) fn parse(kind: Kind, text: &str) -> Option<Self> {
        Some(match kind {
            Kind::Text => Self::Text(text.trim().to_owned()),
            Kind::Number => Self::Number(text.trim().replace('_', "").parse().ok()?),
            Kind::Switch => Self::Switch(text.trim().parse().ok()?),
            Kind::List => {
                let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
                Self::List(entries.map(str::to_owned).collect())
            }
            Kind::Secret => Self::Secret(text.trim().into()),
        })
    }

    /// Converts a TOML value; `None` if it has another type.
    pub(super) fn from_toml(kind: Kind, value: &toml::de::DeValue<'_>) -> Option<Self> {
        Some(match kind {
            Kind::Text => Self::Text(value.as_str()?.to_owned()),
            Kind::Number => {
                let number = value.as_integer()?;
                Self::Number(u64::from_str_radix(number.as_str(), number.radix()).ok()?)
            }
            Kind::Switch => Self::Switch(value.as_bool()?),
            Kind::List => {
                let entries = value.as_array()?.iter().map(|entry| entry.get_ref().as_str());
                Self::List(entries.map(|entry| entry.map(str::to_owned)).collect::<Option<_>>()?)
            }
            Kind::Secret => Self::Secret(value.as_str()?.into()),
        })
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn number<N: TryFrom<u64>>(&self) -> Option<N> {
        if let Self::Number(number) = self { N::try_from(*number).ok() } else { None }
    }

    pub(super) fn switch(&self) -> Option<bool> {
        if let Self::Switch(on) = self { Some(*on) } else { None }
    }

    pub(super) fn list(&self) -> Option<&[String]> {
        if let Self::List(list) = self { Some(list) } else { None }
    }

    pub(super) fn secret(&self) -> Option<&SecretString> {
        if let Self::Secret(secret) = self { Some(secret) } else { None }
    }

    /// The value for programs, with secrets redacted.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Number(number) => json!(number),
            Self::Switch(on) => json!(on),
            Self::List(list) => json!(list),
            Self::Secret(secret) => json!(secret_url::redacted(secret.expose_secret())),
        }
    }

    /// The value in the syntax of the file, with secrets redacted.
    #[must_use]
    pub fn shown(&self) -> String {
        // The only character that JSON allows unescaped and TOML does not.
        self.to_json().to_string().replace('\u{7f}', "\\u007f")
    }
}

/// The value for people, without quotes.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => number.fmt(f),
            Self::Switch(on) => on.fmt(f),
            Self::List(list) => f.write_str(&list.join(", ")),
            Self::Secret(secret) => f.write_str(&secret_url::redacted(secret.expose_secret())),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Secret(this), Self::Secret(that)) => this.expose_secret() == that.expose_secret(),
            _ => self.to_json() == other.to_json(),
        }
    }
}
