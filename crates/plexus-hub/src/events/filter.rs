//! Filters of event streams: the reader's selection, restricted to the sessions that it may see.

use plexus_auth::Principal;
use plexus_proto::{EventKind, SessionId};

use super::item::Item;

/// Lets a token see the sessions of other subjects.
pub(crate) const SEE_ALL_SESSIONS: &str = "read:sessions";

/// The owner whose sessions a principal may see; `None` for all sessions.
pub(crate) fn visible_owner(principal: &Principal) -> Option<&str> {
    (!principal.allows(SEE_ALL_SESSIONS)).then(|| principal.subject())
}

/// The selection of a reader. Empty fields select everything.
#[derive(Debug, Default)]
pub(crate) struct EventSelection {
    pub(crate) session: Option<SessionId>,
    pub(crate) owner: Option<String>,
    pub(crate) kinds: Vec<EventKind>,
}

#[derive(Debug)]
pub(super) struct Filter {
    /// The only owner whose sessions may be seen.
    visible: Option<String>,
    selection: EventSelection,
}

impl Filter {
    pub(super) fn new(principal: &Principal, selection: EventSelection) -> Self {
        Self { visible: visible_owner(principal).map(str::to_owned), selection }
    }

    pub(super) fn passes(&self, item: &Item) -> bool {
        self.visible.as_ref().is_none_or(|owner| *owner == item.owner)
            && self.selection.owner.as_ref().is_none_or(|owner| *owner == item.owner)
            && self.selection.session.is_none_or(|session| session == item.session_id)
            && (self.selection.kinds.is_empty() || self.selection.kinds.contains(&item.kind))
    }
}
