//! One side of a copy: a local path, or a path on a node.

use std::path::PathBuf;

use crate::failure::{Exit, Failure};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CopyEndpoint {
    Local(PathBuf),
    Remote {
        node: String,
        /// Absolute, starting with `~/`, or relative to the node's working folder.
        path: String,
    },
}

impl CopyEndpoint {
    /// As in scp: an argument with a colon before any slash is on another machine.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        if text.is_empty() {
            return Err(Failure::new(Exit::Usage, "a path is empty").into());
        }
        let Some((node, path)) = text.split_once(':').filter(|(node, _)| !node.contains('/')) else {
            return Ok(Self::Local(super::absolute(PathBuf::from(text))));
        };
        if node.is_empty() {
            return Err(Failure::new(Exit::Usage, format!("{text:?} names no node before the colon"))
                .hint("write ./:name for a local file")
                .into());
        }
        let path = match path {
            "" => ".".to_owned(),
            path => path.to_owned(),
        };
        Ok(Self::Remote { node: node.to_owned(), path })
    }
}

#[cfg(test)]
mod tests;
