//! Which machine a call means.
//!
//! Only machines that the caller may use are looked at, so that one it may not use is not found by the same code, with the
//! same words, as one that does not exist. Whether a machine is up plays no part in it: what a call means must not change
//! with the weather.

use plexus_auth::Principal;
use plexus_proto::{ErrorCode, NodeId};
use serde_json::{Value, json};

use super::NodeEntry;
use crate::CallError;

/// Machines that an error lists.
const LISTED: usize = 20;
/// Characters of what was asked for that are repeated back.
const SHOWN: usize = 100;

/// Who chose the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// The call itself.
    ByCall,
    /// What the caller is set up for, or that nothing is.
    ByDefault,
}

/// Scope that a call needs to go to a machine.
pub(crate) fn scope(node: &str) -> String {
    format!("node:{node}")
}

/// The one machine that is asked for by its name, its id, or labels.
pub(crate) fn select(
    all: &[NodeEntry],
    principal: &Principal,
    asked: &str,
    chosen: Chosen,
) -> Result<NodeEntry, CallError> {
    let usable: Vec<&NodeEntry> = super::usable(all, principal).collect();
    let found = match asked.contains('=') {
        true => {
            let labels = labels(asked)?;
            let has = |node: &&&NodeEntry| {
                labels.iter().all(|(key, value)| node.labels.get(*key).is_some_and(|own| own == value))
            };
            usable.iter().filter(has).copied().collect()
        }
        false => named(&usable, asked),
    };
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(none(&usable, asked, chosen)),
        several => Err(ambiguous(several, asked)),
    }
}

/// By id, or by name, whatever its case.
fn named<'n>(usable: &[&'n NodeEntry], asked: &str) -> Vec<&'n NodeEntry> {
    let id: Option<NodeId> = asked.parse().ok();
    let is_meant = |node: &&&NodeEntry| id.map_or(node.name.eq_ignore_ascii_case(asked), |id| node.id == id);
    usable.iter().filter(is_meant).copied().collect()
}

/// `key=value`, several with commas between them.
fn labels(asked: &str) -> Result<Vec<(&str, &str)>, CallError> {
    fn pair(part: &str) -> Option<(&str, &str)> {
        let (key, value) = part.split_once('=')?;
        Some((key.trim(), value.trim())).filter(|(key, value)| !key.is_empty() && !value.is_empty())
    }
    asked.split(',').map(pair).collect::<Option<Vec<_>>>().ok_or_else(|| {
        let message = format!("{:?} does not say which labels a node must have", shown(asked));
        CallError::new(ErrorCode::InvalidArguments, message)
            .hint("Nothing was run. Write key=value, several with commas between them, such as role=nas,site=home.")
            .before_it_ran()
    })
}

fn none(usable: &[&NodeEntry], asked: &str, chosen: Chosen) -> CallError {
    let asked = shown(asked);
    let message = match chosen {
        Chosen::ByCall if asked.contains('=') => format!("no node that you may use has the labels {asked:?}"),
        Chosen::ByCall => format!("there is no node {asked:?} that you may use"),
        Chosen::ByDefault => {
            format!("there is no node {asked:?} that you may use, and the call names no other")
        }
    };
    let hint = match usable {
        [] => "Nothing was run. There is no node that you may use.".to_owned(),
        usable => format!("Nothing was run. You may use {}.", described(usable)),
    };
    CallError::new(ErrorCode::NotFound, message).hint(hint).details(candidates(usable)).before_it_ran()
}

fn ambiguous(several: &[&NodeEntry], asked: &str) -> CallError {
    let message = format!("{} nodes match {:?}: {}", several.len(), shown(asked), described(several));
    CallError::new(ErrorCode::InvalidArguments, message)
        .hint("Nothing was run. Name one of them.")
        .details(candidates(several))
        .before_it_ran()
}

/// The machines with what keeps each from taking a call, as in `nas, vps (offline since 2026-11-01T10:00:00Z)`.
fn described(nodes: &[&NodeEntry]) -> String {
    let mut texts: Vec<String> = nodes
        .iter()
        .take(LISTED)
        .map(|node| match node.absence() {
            Some(why) => format!("{} ({why})", node.name),
            None => node.name.clone(),
        })
        .collect();
    if nodes.len() > LISTED {
        texts.push(format!("and {} more", nodes.len() - LISTED));
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
    json!({ "candidates": nodes.iter().take(LISTED).map(candidate).collect::<Vec<_>>() })
}

fn shown(asked: &str) -> String {
    asked.chars().take(SHOWN).collect()
}
