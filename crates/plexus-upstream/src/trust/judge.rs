//! Judges a tool list: decides which definitions match their approval, which are held back, and which the
//! rule in the file approves now.

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

/// Limit of judged tools per server; tools that the file denies are dropped first.
const MAX_TOOLS: usize = 1_000;
/// The value of `decided_by` for decisions of a rule.
const BY_TOFU: &str = "tofu";
const BY_AUTO: &str = "auto";

/// The tools and instructions that a server offers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Offer {
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) instructions: Option<String>,
    /// The server offers this now. A list remembered from an earlier run of the hub justifies no new trust.
    pub(crate) live: bool,
}

/// A definition that is hidden from models.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuarantinedDefinition {
    pub(crate) text: PinnedText,
    pub(crate) reason: QuarantineReason,
    pub(crate) flags: Vec<ToolFlag>,
    /// The approved version.
    before: Option<PinRecord>,
}

impl QuarantinedDefinition {
    pub(crate) fn summary(&self) -> QuarantinedTool {
        let name = scan::visible(&self.text.name);
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
            name: self.text.name.clone(),
            reason: self.reason,
            hash: self.text.hash.clone(),
            flags: self.flags.clone(),
            diff: diff::lines(before.unwrap_or(&nothing), &self.text.form),
            definition: Value::Object(self.text.form.clone()),
            approved,
        }
    }

    /// The pin to store on approval.
    pub(crate) fn approval(&self, by: &str, at: Timestamp) -> PinRecord {
        decided(&self.text, PinState::Approved, by, at)
    }
}

/// The result of judging a list.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    /// Hashes of the definitions that may be listed.
    approved: HashSet<String>,
    /// The server's instructions, if models may read them.
    pub(crate) instructions: Option<String>,
    pub(crate) quarantined: Vec<QuarantinedDefinition>,
    /// Definitions that are listed although they have findings.
    pub(crate) flagged: Vec<FlaggedTool>,
    /// Who approved each, by the server's name of the tool.
    pub(crate) decided_by: BTreeMap<String, String>,
    /// A decision about this server was stored before.
    pub(crate) has_decisions: bool,
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

/// The context of a judgement.
#[derive(Debug)]
pub(crate) struct JudgeContext {
    pub(crate) pins: Vec<PinRecord>,
    pub(crate) other_tools: OtherTools,
    pub(crate) now: Timestamp,
}

/// Judges a list; also returns the decisions to store.
pub(crate) fn judge(
    config: &ServerConfig,
    offer: &Offer,
    context: &JudgeContext,
) -> (Judgement, Vec<PinRecord>) {
    let pins: BTreeMap<&str, &PinRecord> = context.pins.iter().map(|pin| (pin.tool.as_str(), pin)).collect();
    let mut judgement = Judgement { has_decisions: !pins.is_empty(), ..Judgement::default() };
    let mut decisions = Vec::new();
    let first_use = config.approve == Approve::Tofu && pins.is_empty();
    let own_names: BTreeSet<String> = offer
        .definitions
        .iter()
        .filter_map(|definition| Some(definition.get("name")?.as_str()?.to_ascii_lowercase()))
        .collect();
    for text in subjects(config, offer) {
        let is_instructions = text.name == INSTRUCTIONS;
        let pin = pins.get(text.name.as_str()).copied();
        let approved = pin.filter(|pin| pin.state == PinState::Approved);
        let mut flags = scan::scan(&text.form);
        let is_pinned = approved.is_some_and(|pin| pin.hash == text.hash);
        if !is_pinned {
            flags.splice(0..0, context.other_tools.flags(&config.slug, &own_names, &text.name, &text.form));
        }
        let by = match config.approve {
            _ if is_pinned => approved.map(|pin| pin.decided_by.clone()),
            Approve::Auto => Some(BY_AUTO.to_owned()),
            Approve::Tofu if first_use && offer.live && flags.is_empty() => Some(BY_TOFU.to_owned()),
            Approve::Tofu | Approve::Manual => None,
        };
        let Some(by) = by else {
            if first_use && offer.live {
                decisions.push(decided(&text, PinState::Held, BY_TOFU, context.now));
            }
            let reason = match (approved, first_use || pin.is_some_and(|pin| pin.hash == text.hash)) {
                (Some(_), _) => QuarantineReason::Changed,
                (None, true) => QuarantineReason::Flagged,
                (None, false) => QuarantineReason::New,
            };
            if is_instructions || config.tools.admit(&text.name) {
                judgement.quarantined.push(QuarantinedDefinition {
                    text,
                    reason,
                    flags,
                    before: approved.cloned(),
                });
            }
            continue;
        };
        if !is_pinned && offer.live {
            decisions.push(decided(&text, PinState::Approved, &by, context.now));
        }
        if is_instructions {
            judgement.instructions = offer.instructions.clone();
        }
        if !flags.is_empty() && (is_instructions || config.tools.admit(&text.name)) {
            let name = scan::visible(&text.name);
            judgement.flagged.push(FlaggedTool { name, flags, decided_by: by.clone() });
        }
        judgement.decided_by.insert(text.name, by);
        judgement.approved.insert(text.hash);
    }
    (judgement, decisions)
}

/// The subjects of a judgement: the first definition of each name, up to the limit, and the server's
/// instructions.
fn subjects(config: &ServerConfig, offer: &Offer) -> Vec<PinnedText> {
    let mut names = BTreeSet::new();
    let all = offer.definitions.iter().map(PinnedText::of_tool);
    let mut subjects: Vec<PinnedText> =
        all.filter(|text| text.is_usable() && names.insert(text.name.clone())).collect();
    subjects.sort_by_cached_key(|text| (!config.tools.admit(&text.name), text.name.clone()));
    subjects.truncate(MAX_TOOLS);
    // A remembered list contains tools only.
    if offer.live {
        subjects.push(PinnedText::of_server(offer.instructions.as_deref()));
    }
    subjects
}

fn decided(text: &PinnedText, state: PinState, by: &str, at: Timestamp) -> PinRecord {
    PinRecord {
        tool: text.name.clone(),
        hash: text.hash.clone(),
        definition: Value::Object(text.form.clone()).to_string(),
        state,
        decided_by: by.to_owned(),
        decided_at: at,
    }
}

#[cfg(test)]
mod tests;
