//! Servers as a caller may see them: admins see everything, others only what their tools reveal anyway.

use std::collections::BTreeMap;

use plexus_proto::api::Upstream;
use plexus_upstream::client::for_callers;

use crate::http::Caller;

pub(super) enum UpstreamView {
    All,
    /// The tools that the caller can see, by the slug of their server.
    OwnTools(BTreeMap<String, Vec<String>>),
}

impl UpstreamView {
    pub(super) fn of(caller: &Caller) -> Self {
        if caller.principal.is_admin() {
            return Self::All;
        }
        let mut tools_by_server: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for tool in caller.services.dispatcher.registry().visible_to(&caller.principal).tools() {
            if let Some(upstream) = tool.spec().upstream() {
                tools_by_server.entry(upstream.server.clone()).or_default().push(tool.name().to_owned());
            }
        }
        Self::OwnTools(tools_by_server)
    }

    /// The visible part of a server; `None` if the caller must not see it. Invalid messages of the server, its
    /// standard error and the warnings about its file are for admins only, who can act on them.
    pub(super) fn show(&self, mut upstream: Upstream) -> Option<Upstream> {
        if let Self::OwnTools(tools_by_server) = self {
            upstream.tools = tools_by_server.get(&upstream.slug)?.clone();
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
