//! What becomes of a list: which of its definitions are what was approved, which are held back, and which the rule of the
//! file approves now.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use plexus_proto::Timestamp;
use plexus_proto::api::{
    ApprovedDefinition, FlaggedTool, INSTRUCTIONS, PendingTool, QuarantineReason, QuarantinedTool, ToolFlag,
};
use plexus_store::{PinRecord, PinState};
use serde_json::{Map, Value};

use super::other_tools::OtherTools;
use super::pin::PinnedText;
use super::{diff, scan};
use crate::client::Definitions;
use crate::config::{Approve, ServerConfig};

/// Tools of one server that are judged; those that its file does not want come last.
const MAX_TOOLS: usize = 1_000;
/// Who has decided, where it was a rule.
const BY_TOFU: &str = "tofu";
const BY_AUTO: &str = "auto";

/// What a server says of its tools and of itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Offer {
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) instructions: Option<String>,
    /// It says so now. What an earlier hub remembers of it gives no reason to trust anything.
    pub(crate) live: bool,
}

/// A definition that no model gets to see.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeldBack {
    pub(crate) said: PinnedText,
    pub(crate) reason: QuarantineReason,
    pub(crate) flags: Vec<ToolFlag>,
    /// What was approved.
    before: Option<PinRecord>,
}

impl HeldBack {
    pub(crate) fn summary(&self) -> QuarantinedTool {
        let name = scan::visible(&self.said.name);
        QuarantinedTool { name, reason: self.reason, flags: self.flags.clone() }
    }

    pub(crate) fn pending(&self) -> PendingTool {
        let approved = self.before.as_ref().map(|pin| ApprovedDefinition {
            hash: pin.hash.clone(),
            definition: serde_json::from_str(&pin.definition).unwrap_or_default(),
            decided_by: pin.decided_by.clone(),
            decided_at: pin.decided_at,
        });
        let nothing = Map::new();
        let before = approved.as_ref().and_then(|approved| approved.definition.as_object());
        PendingTool {
            name: self.said.name.clone(),
            reason: self.reason,
            hash: self.said.hash.clone(),
            flags: self.flags.clone(),
            diff: diff::lines(before.unwrap_or(&nothing), &self.said.form),
            definition: Value::Object(self.said.form.clone()),
            approved,
        }
    }

    /// What is stored when somebody approves it.
    pub(crate) fn approval(&self, by: &str, at: Timestamp) -> PinRecord {
        decided(&self.said, PinState::Approved, by, at)
    }
}

/// What became of a list.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    /// Hashes of the definitions that may be listed.
    approved: HashSet<String>,
    /// What the server may say to models.
    pub(crate) instructions: Option<String>,
    pub(crate) held: Vec<HeldBack>,
    /// Definitions that may be listed although something about them is strange.
    pub(crate) flagged: Vec<FlaggedTool>,
    /// Who approved each, by the server's names of the tools.
    pub(crate) decided_by: BTreeMap<String, String>,
    /// Anything was ever decided on this server.
    pub(crate) known: bool,
}

impl Judgement {
    /// Whether a definition of this hash may be listed.
    pub(crate) fn has_approved(&self, hash: &str) -> bool {
        self.approved.contains(hash)
    }

    /// Whether a definition may be listed.
    pub(crate) fn admits(&self, definition: &Map<String, Value>) -> bool {
        self.has_approved(&PinnedText::of_tool(definition).hash)
    }
}

/// What is known when a list is judged.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) pins: Vec<PinRecord>,
    pub(crate) other_tools: OtherTools,
    pub(crate) now: Timestamp,
}

/// Judges a list; what is to be stored comes with it.
pub(crate) fn judge(config: &ServerConfig, offer: &Offer, bench: &Bench) -> (Judgement, Vec<PinRecord>) {
    let pins: BTreeMap<&str, &PinRecord> = bench.pins.iter().map(|pin| (pin.tool.as_str(), pin)).collect();
    let mut judgement = Judgement { known: !pins.is_empty(), ..Judgement::default() };
    let mut decisions = Vec::new();
    let first_use = config.approve == Approve::Tofu && pins.is_empty();
    let own: BTreeSet<String> = offer
        .definitions
        .iter()
        .filter_map(|definition| Some(definition.get("name")?.as_str()?.to_ascii_lowercase()))
        .collect();
    for said in subjects(config, offer) {
        let is_instructions = said.name == INSTRUCTIONS;
        let pin = pins.get(said.name.as_str()).copied();
        let approved = pin.filter(|pin| pin.state == PinState::Approved);
        let mut flags = scan::scan(&said.form);
        let is_pinned = approved.is_some_and(|pin| pin.hash == said.hash);
        if !is_pinned {
            flags.splice(0..0, bench.other_tools.flags(&config.slug, &own, &said.name, &said.form));
        }
        let by = match config.approve {
            _ if is_pinned => approved.map(|pin| pin.decided_by.clone()),
            Approve::Auto => Some(BY_AUTO.to_owned()),
            Approve::Tofu if first_use && offer.live && flags.is_empty() => Some(BY_TOFU.to_owned()),
            Approve::Tofu | Approve::Manual => None,
        };
        let Some(by) = by else {
            if first_use && offer.live {
                decisions.push(decided(&said, PinState::Held, BY_TOFU, bench.now));
            }
            let reason = match (approved, first_use || pin.is_some_and(|pin| pin.hash == said.hash)) {
                (Some(_), _) => QuarantineReason::Changed,
                (None, true) => QuarantineReason::Flagged,
                (None, false) => QuarantineReason::New,
            };
            if is_instructions || config.tools.admit(&said.name) {
                judgement.held.push(HeldBack { said, reason, flags, before: approved.cloned() });
            }
            continue;
        };
        if !is_pinned && offer.live {
            decisions.push(decided(&said, PinState::Approved, &by, bench.now));
        }
        if is_instructions {
            judgement.instructions = offer.instructions.clone();
        }
        if !flags.is_empty() && (is_instructions || config.tools.admit(&said.name)) {
            let name = scan::visible(&said.name);
            judgement.flagged.push(FlaggedTool { name, flags, decided_by: by.clone() });
        }
        judgement.decided_by.insert(said.name, by);
        judgement.approved.insert(said.hash);
    }
    (judgement, decisions)
}

/// What is judged: the first definition of each name, as many as there may be, and what the server says of itself.
fn subjects(config: &ServerConfig, offer: &Offer) -> Vec<PinnedText> {
    let mut names = BTreeSet::new();
    let all = offer.definitions.iter().map(PinnedText::of_tool);
    let mut subjects: Vec<PinnedText> =
        all.filter(|said| said.is_usable() && names.insert(said.name.clone())).collect();
    subjects.sort_by_cached_key(|said| (!config.tools.admit(&said.name), said.name.clone()));
    subjects.truncate(MAX_TOOLS);
    // What an earlier hub remembers are tools only.
    if offer.live {
        subjects.push(PinnedText::of_server(offer.instructions.as_deref()));
    }
    subjects
}

fn decided(said: &PinnedText, state: PinState, by: &str, at: Timestamp) -> PinRecord {
    PinRecord {
        tool: said.name.clone(),
        hash: said.hash.clone(),
        definition: Value::Object(said.form.clone()).to_string(),
        state,
        decided_by: by.to_owned(),
        decided_at: at,
    }
}

#[cfg(test)]
mod tests;
