//! Hides the tools and actions that the scopes of a token do not grant.
//!
//! | a tool | is visible with |
//! | --- | --- |
//! | any | its scope: `call:NAME`, or `admin` for a tool of admins |
//! | with actions | also with the scope of an action, `call:NAME.ACTION`; then the other actions are cut from its schema |
//! | of a server on a node | also needs `node:` of that node |
//! | that selects its node by argument | also needs some `node:` scope |
//!
//! [`Visible`](crate::Visible) applies this to every tool of the catalog, and then the profile. The caller cannot detect the
//! tools that it leaves out. Scopes also hide nodes (`nodes::selection`), resources and prompts of servers
//! (`catalog::resources` of plexus-upstream), and sessions and events of others (the routes of plexus-hub).

use std::sync::Arc;

use plexus_auth::Principal;

use super::Tool;
use crate::nodes::selection;
use crate::{ToolSpec, schema};

impl Tool {
    /// This tool restricted to the actions that the principal may use; none if it may use none.
    pub(crate) fn narrowed_to(self: &Arc<Self>, principal: &Principal) -> Option<Arc<Self>> {
        let there = match self.spec.upstream().and_then(|upstream| upstream.node.as_ref()) {
            Some(host) => principal.allows(&selection::scope(&host.name)),
            // A principal that may use no node cannot use the tool.
            None => !self.routed || principal.scopes().allows_some("node"),
        };
        if !there {
            return None;
        }
        if principal.allows(&self.spec.scope()) {
            return Some(self.clone());
        }
        let actions: Vec<_> = self
            .spec
            .actions
            .iter()
            .filter(|action| principal.allows(&self.spec.action_scope(action)))
            .cloned()
            .collect();
        if actions.is_empty() {
            return None;
        }
        let names: Vec<_> = actions.iter().map(|action| &*action.name).collect();
        let input_schema = schema::narrow_actions(&self.spec.input_schema, &names);
        let spec = ToolSpec {
            input_schema,
            access: ToolSpec::common_access(&actions),
            actions,
            ..(*self.spec).clone()
        };
        let narrowed = Self::new(spec, self.handler.clone());
        Some(Arc::new(Self { listed: self.listed.clone(), routed: self.routed, ..narrowed }))
    }
}
