//! One side of a copy.

use std::path::PathBuf;

use crate::failure::{Exit, Failure};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Endpoint {
    Here(PathBuf),
    There {
        node: String,
        /// Absolute, from `~` on, or relative to the working folder there.
        path: String,
    },
}

impl Endpoint {
    /// As with scp: what has a colon before any slash is on another machine.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        if text.is_empty() {
            return Err(Failure::new(Exit::Usage, "a path is empty").into());
        }
        let Some((node, path)) = text.split_once(':').filter(|(node, _)| !node.contains('/')) else {
            return Ok(Self::Here(super::absolute(PathBuf::from(text))));
        };
        if node.is_empty() {
            return Err(Failure::new(Exit::Usage, format!("{text:?} names no node before the colon"))
                .hint("write ./:name for a file here")
                .into());
        }
        let path = match path {
            "" => ".".to_owned(),
            path => path.to_owned(),
        };
        Ok(Self::There { node: node.to_owned(), path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(node: &str, path: &str) -> Endpoint {
        Endpoint::There { node: node.to_owned(), path: path.to_owned() }
    }

    #[test]
    fn a_colon_before_any_slash_names_a_node() {
        for (text, expected) in [
            ("nas:/srv/a", there("nas", "/srv/a")),
            ("nas:a b", there("nas", "a b")),
            ("nas:", there("nas", ".")),
            ("nas:~/x", there("nas", "~/x")),
            ("nas:-rf", there("nas", "-rf")),
            ("role=nas:a:b", there("role=nas", "a:b")),
            ("/tmp/a:b", Endpoint::Here("/tmp/a:b".into())),
        ] {
            assert_eq!(Endpoint::parse(text).unwrap(), expected, "{text}");
        }
        let Endpoint::Here(path) = Endpoint::parse("./a:b").unwrap() else { panic!("it is here") };
        assert!(path.is_absolute() && path.ends_with("a:b"));
        assert!(Endpoint::parse(":a").is_err() && Endpoint::parse("").is_err());
    }
}
