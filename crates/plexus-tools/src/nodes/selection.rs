//! Selects the node that a call refers to.
//!
//! Only nodes that the caller may use are considered, so a forbidden node and a missing one take the same code path and
//! get the same error. The selection does not depend on which nodes are online.

use plexus_auth::Principal;
use plexus_proto::{ErrorCode, NodeId};
use serde_json::{Value, json};

use super::NodeEntry;
use crate::CallError;

/// The most nodes that an error lists.
const MAX_LISTED: usize = 20;
/// The most characters of a request that an error quotes.
const MAX_SHOWN: usize = 100;

/// The origin of the selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SelectionSource {
    /// The call itself.
    ByCall,
    /// The caller's configuration, or the default.
    ByDefault,
}

/// The scope that a call needs to run on a node.
pub(crate) fn scope(node: &str) -> String {
    format!("node:{node}")
}

/// The one node with this name, id, or labels.
pub(crate) fn select(
    all: &[NodeEntry],
    principal: &Principal,
    selector: &str,
    chosen: SelectionSource,
) -> Result<NodeEntry, CallError> {
    let usable: Vec<&NodeEntry> = super::usable(all, principal).collect();
    let matching = match selector.contains('=') {
        true => {
            let labels = labels(selector)?;
            let has = |node: &&&NodeEntry| {
                labels.iter().all(|(key, value)| node.labels.get(*key).is_some_and(|actual| actual == value))
            };
            usable.iter().filter(has).copied().collect()
        }
        false => by_id_or_name(&usable, selector),
    };
    match matching.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(not_found_error(&usable, selector, chosen)),
        several => Err(ambiguous(several, selector)),
    }
}

/// By id, or by name, ignoring case.
fn by_id_or_name<'n>(usable: &[&'n NodeEntry], selector: &str) -> Vec<&'n NodeEntry> {
    let id: Option<NodeId> = selector.parse().ok();
    let matches =
        |node: &&&NodeEntry| id.map_or(node.name.eq_ignore_ascii_case(selector), |id| node.id == id);
    usable.iter().filter(matches).copied().collect()
}

/// `key=value`, separated by commas.
fn labels(selector: &str) -> Result<Vec<(&str, &str)>, CallError> {
    fn pair(part: &str) -> Option<(&str, &str)> {
        let (key, value) = part.split_once('=')?;
        Some((key.trim(), value.trim())).filter(|(key, value)| !key.is_empty() && !value.is_empty())
    }
    selector.split(',').map(pair).collect::<Option<Vec<_>>>().ok_or_else(|| {
        let message = format!("{:?} is not a valid list of labels", shown(selector));
        CallError::new(ErrorCode::InvalidArguments, message)
            .hint("Nothing was run. Write key=value pairs separated by commas, such as role=nas,site=home.")
            .before_it_ran()
    })
}

fn not_found_error(usable: &[&NodeEntry], selector: &str, chosen: SelectionSource) -> CallError {
    let selector = shown(selector);
    let message = match chosen {
        SelectionSource::ByCall if selector.contains('=') => {
            format!("no node that you may use has the labels {selector:?}")
        }
        SelectionSource::ByCall => format!("there is no node {selector:?} that you may use"),
        SelectionSource::ByDefault => {
            format!("there is no node {selector:?} that you may use, and the call does not name another")
        }
    };
    let hint = match usable {
        [] => "Nothing was run. There are no nodes that you may use.".to_owned(),
        usable => format!("Nothing was run. You may use {}.", described(usable)),
    };
    CallError::new(ErrorCode::NotFound, message).hint(hint).details(candidates(usable)).before_it_ran()
}

fn ambiguous(several: &[&NodeEntry], selector: &str) -> CallError {
    let message = format!("{} nodes match {:?}: {}", several.len(), shown(selector), described(several));
    CallError::new(ErrorCode::InvalidArguments, message)
        .hint("Nothing was run. Name one of them.")
        .details(candidates(several))
        .before_it_ran()
}

/// The nodes, each with the reason if it cannot accept a call, as in `nas, vps (offline since 2026-11-01T10:00:00Z)`.
fn described(nodes: &[&NodeEntry]) -> String {
    let mut texts: Vec<String> = nodes
        .iter()
        .take(MAX_LISTED)
        .map(|node| match node.absence() {
            Some(why) => format!("{} ({why})", node.name),
            None => node.name.clone(),
        })
        .collect();
    if nodes.len() > MAX_LISTED {
        texts.push(format!("and {} more", nodes.len() - MAX_LISTED));
    }
    texts.join(", ")
}

fn candidates(nodes: &[&NodeEntry]) -> Value {
    let candidate = |node: &&NodeEntry| {
        json!({
            "name": node.name,
            "id": node.id,
            "labels": node.labels,
            "online": node.online,
            "draining": node.draining,
        })
    };
    json!({ "candidates": nodes.iter().take(MAX_LISTED).map(candidate).collect::<Vec<_>>() })
}

fn shown(selector: &str) -> String {
    selector.chars().take(MAX_SHOWN).collect()
}
