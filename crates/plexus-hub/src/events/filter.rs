//! What a reader gets: what it asked for, of what it may see.

use plexus_auth::Principal;
use plexus_proto::{EventKind, SessionId};

use super::item::Item;

/// Lets a token see sessions that are not its own.
pub(crate) const SEE_ALL_SESSIONS: &str = "read:sessions";

/// Whose sessions a principal may see: its own, or, where this is none, all.
pub(crate) fn visible_owner(principal: &Principal) -> Option<&str> {
    (!principal.allows(SEE_ALL_SESSIONS)).then(|| principal.subject())
}

/// What was asked for. Nothing given means everything.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) session: Option<SessionId>,
    pub(crate) owner: Option<String>,
    pub(crate) kinds: Vec<EventKind>,
}

#[derive(Debug)]
pub(super) struct Filter {
    /// The only owner whose sessions may be seen.
    visible: Option<String>,
    wanted: Wanted,
}

impl Filter {
    pub(super) fn new(principal: &Principal, wanted: Wanted) -> Self {
        Self { visible: visible_owner(principal).map(str::to_owned), wanted }
    }

    pub(super) fn passes(&self, item: &Item) -> bool {
        self.visible.as_ref().is_none_or(|owner| *owner == item.owner)
            && self.wanted.owner.as_ref().is_none_or(|owner| *owner == item.owner)
            && self.wanted.session.is_none_or(|session| session == item.session_id)
            && (self.wanted.kinds.is_empty() || self.wanted.kinds.contains(&item.kind))
    }
}
