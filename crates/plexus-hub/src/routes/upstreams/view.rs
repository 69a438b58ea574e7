//! Servers as a caller may know them: an admin all of each, others what their tools let them see anyway.

use std::collections::BTreeMap;

use plexus_proto::api::Upstream;
use plexus_upstream::client::for_callers;

use crate::http::Caller;

pub(super) enum View {
    All,
    /// The tools that the caller sees, by the slug of their server.
    Seen(BTreeMap<String, Vec<String>>),
}

impl View {
    pub(super) fn of(caller: &Caller) -> Self {
        if caller.principal.is_admin() {
            return Self::All;
        }
        let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for tool in caller.services.dispatcher.registry().visible_to(&caller.principal).tools() {
            if let Some(upstream) = tool.spec().upstream() {
                seen.entry(upstream.server.clone()).or_default().push(tool.name().to_owned());
            }
        }
        Self::Seen(seen)
    }

    /// What there is to say of a server; none where it is none of the caller's. What it sends that is no message, its
    /// standard error and what is strange about its file are for those who can do something about them.
    pub(super) fn show(&self, mut upstream: Upstream) -> Option<Upstream> {
        if let Self::Seen(seen) = self {
            upstream.tools = seen.get(&upstream.slug)?.clone();
            upstream.warnings.clear();
            upstream.remark = None;
            upstream.quarantined.clear();
            upstream.flagged.clear();
            if let Some(failure) = &mut upstream.last_error {
                failure.stderr.clear();
                failure.message.truncate(for_callers(&failure.message).len());
            }
        }
        Some(upstream)
    }
}
