//! Lists of resources, templates and prompts: rendered once per token, returned in pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use moka::sync::Cache;
use plexus_auth::Principal;
use plexus_proto::TokenId;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::State;
use super::list::RenderedList;
use super::rpc::RpcError;
use crate::offers::VisibleOffers;
use crate::version::Features;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum OfferList {
    Resources,
    Templates,
    Prompts,
}

impl OfferList {
    fn member(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    fn entries(self, offers: &VisibleOffers) -> BTreeMap<String, Map<String, Value>> {
        match self {
            Self::Resources => offers.resources(),
            Self::Templates => offers.templates(),
            Self::Prompts => offers.prompts(),
        }
    }
}

#[derive(Debug)]
pub(super) struct OfferCache(Cache<(TokenId, Features, OfferList), Arc<RenderedList>>);

impl Default for OfferCache {
    fn default() -> Self {
        Self(RenderedList::cache())
    }
}

/// The resources and prompts that a principal sees.
pub(super) fn visible(state: &State, principal: &Principal) -> VisibleOffers {
    state.upstreams.visible_offers(&state.dispatcher.registry().visible_to(principal))
}

/// The whole list that this principal sees.
pub(super) fn rendered(
    state: &State,
    principal: &Principal,
    list: OfferList,
    features: Features,
) -> Arc<RenderedList> {
    // Read before the entries, so that newer entries at worst get an older version.
    let offer_version = state.upstreams.offer_version();
    let visible = state.dispatcher.registry().visible_to(principal);
    let version = (visible.version(), offer_version);
    let key = (principal.token_id(), features, list);
    if let Some(rendered) = state.offers.0.get(&key).filter(|rendered| rendered.version() == version) {
        return rendered;
    }
    let entries = list.entries(&state.upstreams.visible_offers(&visible)).into_iter();
    let entries = entries.map(|(name, entry)| (name, entry_json(entry, features))).collect();
    let rendered = Arc::new(RenderedList::new(version, list.member(), entries));
    state.offers.0.insert(key, rendered.clone());
    rendered
}

/// A page of a list and its cursor, without the enclosing braces.
pub(super) fn page(
    state: &State,
    principal: &Principal,
    list: OfferList,
    cursor: Option<&RawValue>,
    features: Features,
) -> Result<String, RpcError> {
    rendered(state, principal, list, features).page(cursor)
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
