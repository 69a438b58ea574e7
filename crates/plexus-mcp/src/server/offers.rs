//! Lists of what the servers behind the hub offer beside tools: rendered once per token, sliced into pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use moka::sync::Cache;
use plexus_auth::Principal;
use plexus_proto::TokenId;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::State;
use super::list::Rendered;
use super::rpc::RpcError;
use crate::offers::VisibleOffers;
use crate::version::Features;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Listed {
    Resources,
    Templates,
    Prompts,
}

impl Listed {
    fn member(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    fn of(self, seen: &VisibleOffers) -> BTreeMap<String, Map<String, Value>> {
        match self {
            Self::Resources => seen.resources(),
            Self::Templates => seen.templates(),
            Self::Prompts => seen.prompts(),
        }
    }
}

#[derive(Debug)]
pub(super) struct OfferCache(Cache<(TokenId, Features, Listed), Arc<Rendered>>);

impl Default for OfferCache {
    fn default() -> Self {
        Self(Rendered::cache())
    }
}

/// What a principal sees of what the servers offer.
pub(super) fn seen(state: &State, principal: &Principal) -> VisibleOffers {
    state.upstreams.visible_offers(&state.dispatcher.registry().visible_to(principal))
}

/// A whole list, as this principal sees it.
pub(super) fn rendered(
    state: &State,
    principal: &Principal,
    what: Listed,
    features: Features,
) -> Arc<Rendered> {
    // Before the look at what there is, so that nothing newer is taken for older.
    let offered = state.upstreams.offer_version();
    let visible = state.dispatcher.registry().visible_to(principal);
    let version = (visible.version(), offered);
    let key = (principal.token_id(), features, what);
    if let Some(rendered) = state.offers.0.get(&key).filter(|rendered| rendered.version() == version) {
        return rendered;
    }
    let entries = what.of(&state.upstreams.visible_offers(&visible)).into_iter();
    let entries = entries.map(|(name, entry)| (name, entry_json(entry, features))).collect();
    let rendered = Arc::new(Rendered::new(version, what.member(), entries));
    state.offers.0.insert(key, rendered.clone());
    rendered
}

/// A page of a list, and where the next begins, without the braces around them.
pub(super) fn list(
    state: &State,
    principal: &Principal,
    what: Listed,
    cursor: Option<&RawValue>,
    features: Features,
) -> Result<String, RpcError> {
    rendered(state, principal, what, features).page(cursor)
}

fn entry_json(mut entry: Map<String, Value>, features: Features) -> String {
    if !features.structured {
        entry.remove("title");
        let arguments = entry.get_mut("arguments").and_then(Value::as_array_mut);
        for argument in arguments.into_iter().flatten().filter_map(Value::as_object_mut) {
            argument.remove("title");
        }
    }
    Value::Object(entry).to_string()
}
