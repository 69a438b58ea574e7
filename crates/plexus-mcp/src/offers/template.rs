//! Matches URIs against URI templates (RFC 6570).
//!
//! A match only selects the server, which then decides itself, so matching is lenient: a variable matches whatever
//! existing servers let it match. Matching does not backtrack: each part of the template takes one pass over the URI,
//! so a hostile template cannot make it slow.

/// Longest template and longest URI, in bytes.
const MAX_LENGTH: usize = 2_048;
/// Most literals and expressions of a template.
const MAX_PARTS: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Variable(Variable),
}

/// What an expression in braces matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variable {
    /// `{x}`: one or more characters within a path segment.
    Segment,
    /// `{+x}`, `{x*}`: one or more characters.
    Anything,
    /// `{/x}`, `{?x}` and the like: nothing, or this character and any others.
    After(u8),
}

impl Template {
    /// None if the template is invalid or too long.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_LENGTH {
            return None;
        }
        let (mut parts, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (literal, expression) = match rest.split_once('{') {
                Some((literal, after)) => (literal, Some(after.split_once('}')?)),
                None => (rest, None),
            };
            if literal.contains('}') {
                return None;
            }
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            }
            rest = "";
            if let Some((expression, after)) = expression {
                parts.push(Part::Variable(Variable::parse(expression)?));
                rest = after;
            }
        }
        (parts.len() <= MAX_PARTS).then_some(Self { parts })
    }

    /// Whether the template could expand to this URI.
    pub(super) fn matches(&self, uri: &str) -> bool {
        let uri = uri.as_bytes();
        if uri.len() > MAX_LENGTH {
            return false;
        }
        // The positions at which a match of the parts so far can end.
        let mut reached = vec![false; uri.len() + 1];
        reached[0] = true;
        for part in &self.parts {
            reached = match part {
                Part::Literal(literal) => after_literal(uri, &reached, literal.as_bytes()),
                Part::Variable(variable) => variable.after(uri, &reached),
            };
            if !reached.contains(&true) {
                return false;
            }
        }
        reached[uri.len()]
    }

    /// The total length of the literals. Of two matching templates, the one with the longer literals is more
    /// specific.
    pub(super) fn literal_length(&self) -> usize {
        let length = |part: &Part| match part {
            Part::Literal(literal) => literal.len(),
            Part::Variable(_) => 0,
        };
        self.parts.iter().map(length).sum()
    }
}

fn after_literal(uri: &[u8], reached: &[bool], literal: &[u8]) -> Vec<bool> {
    let mut next = vec![false; reached.len()];
    for at in (0..reached.len()).filter(|at| reached[*at]) {
        if uri[at..].starts_with(literal) {
            next[at + literal.len()] = true;
        }
    }
    next
}

impl Variable {
    fn parse(expression: &str) -> Option<Self> {
        let (operator, names) = match expression.as_bytes().first()? {
            operator @ (b'+' | b'#' | b'.' | b'/' | b';' | b'?' | b'&') => {
                (Some(*operator), &expression[1..])
            }
            _ => (None, expression),
        };
        let is_name = |name: &str| {
            let name = name.trim_end_matches(|c: char| c == '*' || c == ':' || c.is_ascii_digit());
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.%-".contains(&b))
        };
        if !names.split(',').all(is_name) {
            return None;
        }
        Some(match operator {
            None if names.contains('*') => Self::Anything,
            None => Self::Segment,
            Some(b'+') => Self::Anything,
            Some(operator) => Self::After(operator),
        })
    }

    fn after(self, uri: &[u8], reached: &[bool]) -> Vec<bool> {
        let takes = |byte: u8| self != Self::Segment || !b"/?#".contains(&byte);
        let mut next = match self {
            Self::Segment | Self::Anything => vec![false; reached.len()],
            Self::After(_) => reached.to_vec(),
        };
        let mut within = false;
        for (at, byte) in uri.iter().enumerate() {
            let begins = reached[at]
                && match self {
                    Self::Segment | Self::Anything => true,
                    Self::After(operator) => *byte == operator,
                };
            within = (within || begins) && takes(*byte);
            next[at + 1] |= within;
        }
        next
    }
}

#[cfg(test)]
mod tests;
