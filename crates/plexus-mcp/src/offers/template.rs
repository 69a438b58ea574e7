//! URI templates of servers (RFC 6570), read the other way round: whether a URI could have come of one.
//!
//! It only has to find the server that a URI is of, which then decides for itself. So it is generous: a variable may
//! stand for whatever servers in the wild let it stand for. It never backtracks: one pass over the URI for each part of
//! the template, whatever a server writes into it.

/// Longest template and longest URI that are compared, in bytes.
const MAX_LENGTH: usize = 2_048;
/// Literals and expressions of one template.
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

/// What an expression in braces may stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variable {
    /// `{x}`: something within a segment of the path.
    Segment,
    /// `{+x}`, `{x*}`: something.
    Anything,
    /// `{/x}`, `{?x}` and the like: nothing, or this character and whatever follows.
    After(u8),
}

impl Template {
    /// None for what is no template, or too long to be compared.
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

    /// Whether a URI could be one of these.
    pub(super) fn fits(&self, uri: &str) -> bool {
        let uri = uri.as_bytes();
        if uri.len() > MAX_LENGTH {
            return false;
        }
        // How far the parts so far can reach.
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

    /// How much of it is fixed: of two that fit, the one that says more is meant.
    pub(super) fn fixed(&self) -> usize {
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
mod tests {
    use super::{MAX_LENGTH, Template};

    fn fits(template: &str, uri: &str) -> bool {
        Template::parse(template).expect("a template").fits(uri)
    }

    #[test]
    fn a_uri_fits_the_template_that_it_could_be_made_from() {
        for (template, uri) in [
            ("test://template/{id}/data", "test://template/42/data"),
            ("file:///{+path}", "file:///a/b/c.txt"),
            ("file:///{path*}", "file:///a/b/c.txt"),
            ("db://{table}{?limit,after}", "db://users"),
            ("db://{table}{?limit,after}", "db://users?limit=3&after=4"),
            ("repo://x{/owner,name}", "repo://x/ann/tools"),
            ("doc://{name}{#part}", "doc://readme#top"),
            ("doc://{name}{.kind}", "doc://readme.md"),
            ("a://{x}-{y}", "a://1-2-3"),
            ("plain://text", "plain://text"),
        ] {
            assert!(fits(template, uri), "{template} {uri}");
        }
    }

    #[test]
    fn a_uri_that_could_not_is_not_taken_for_one() {
        for (template, uri) in [
            ("test://template/{id}/data", "test://template//data"),
            ("test://template/{id}/data", "test://template/1/2/data"),
            ("test://template/{id}/data", "test://template/1/data/more"),
            ("test://{id}", "test://1?x"),
            ("db://{table}{?limit}", "db://users/limit"),
            ("plain://text", "plain://text2"),
            ("a://{x}b", "a://b"),
        ] {
            assert!(!fits(template, uri), "{template} {uri}");
        }
    }

    #[test]
    fn what_is_no_template_is_none() {
        for text in ["a://{", "a://}", "a://{}", "a://{x", "a://{x y}", "a://{+}", "a://{x,}"] {
            assert_eq!(Template::parse(text), None, "{text}");
        }
        assert_eq!(Template::parse(&"{x}".repeat(33)), None);
        assert_eq!(Template::parse(&"x".repeat(MAX_LENGTH + 1)), None);
    }

    #[test]
    fn a_template_made_to_be_slow_is_not() {
        let template = Template::parse(&"{+x}a".repeat(16)).expect("a template");
        let begun = std::time::Instant::now();
        assert!(!template.fits(&format!("{}b", "a".repeat(MAX_LENGTH - 1))));
        assert!(begun.elapsed().as_secs() < 2, "{:?}", begun.elapsed());
    }

    #[test]
    fn what_says_more_is_known_to() {
        let fixed = |text: &str| Template::parse(text).expect("a template").fixed();
        assert!(fixed("file:///home/{+path}") > fixed("file:///{+path}"));
        assert_eq!(fixed("{+x}"), 0);
    }
}
