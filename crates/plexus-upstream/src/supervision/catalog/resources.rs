//! Resources, prompts and completions of a server: listed, published, and used on behalf of callers.
//!
//! Access to them is access to a [facility](plexus_tools::Facility), a tool that no list shows. Scopes,
//! profiles, quotas, deadlines and records therefore work as for any call.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use bytes::Bytes;
use plexus_mcp::offers::{CompletionError, OfferLists, ServerOffer};
use plexus_proto::{ErrorCode, tool_name};
use plexus_tools::{
    Access, Action, CallError, Facility, Outcome, Placement, RawJson, Run, Tool, ToolContext, ToolOutput,
    ToolSpec, UpstreamTool,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::client::{
    self, Bridge, Client, ClientError, ListKind, Method, Request, RequestResponse, for_callers,
};
use crate::config::ServerConfig;
use crate::supervision::call;
use crate::supervision::lifecycle::reload::Target;
use crate::supervision::unit::Unit;

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// The registered offers of a server besides its tools.
#[derive(Default)]
pub(in crate::supervision) struct Offering {
    offer: ArcSwap<ServerOffer>,
    published: Mutex<PublishedOffer>,
}

#[derive(Default)]
struct PublishedOffer {
    is_published: bool,
    /// One handler per facility, so that the registry recognizes an unchanged facility.
    handlers: Option<[Arc<Run>; 2]>,
}

impl Offering {
    /// The most recent offer; empty while nothing is published.
    pub(in crate::supervision) fn offer(&self) -> Arc<ServerOffer> {
        self.offer.load_full()
    }
}

/// Requests all lists that a server announces. A list that cannot be fetched keeps its previous entries.
pub(in crate::supervision) async fn fetch_offer(
    client: &Client,
    announced: client::Offers,
    before: &ServerOffer,
) -> ServerOffer {
    let before = before.lists();
    let resources = announced.resources;
    ServerOffer::new(OfferLists {
        resources: list(client, ListKind::Resources, resources, before.resources).await,
        templates: list(client, ListKind::Templates, resources, before.templates).await,
        prompts: list(client, ListKind::Prompts, announced.prompts, before.prompts).await,
        subscribe: resources && announced.subscribe,
        completions: announced.completions,
    })
}

type Entries = Vec<Map<String, Value>>;

async fn list(
    client: &Client,
    list_kind: ListKind,
    is_announced: bool,
    before: Option<Entries>,
) -> Option<Entries> {
    if !is_announced {
        return None;
    }
    match client.list_all(list_kind).await {
        Ok(entries) => Some(entries),
        // Many servers have resources and do not support templates.
        Err(ClientError::Rpc { code: METHOD_NOT_FOUND, .. }) => Some(Entries::new()),
        Err(error) => {
            tracing::warn!(what = ?list_kind, %error, "a server did not return a list; the previous one stays");
            Some(before.unwrap_or_default())
        }
    }
}

impl Unit {
    /// Publishes an offer. Cheap if nothing changed.
    pub(in crate::supervision) fn publish_offer(self: &Arc<Self>, offer: ServerOffer) {
        let mut published = self.offering.published.lock().unwrap_or_else(PoisonError::into_inner);
        let config = match &self.desired.borrow().target {
            Target::Run(config) | Target::Off(config) => config.clone(),
            _ => return,
        };
        let handlers = published
            .handlers
            .get_or_insert_with(|| {
                [Facility::Resources, Facility::Prompts].map(|facility| handler(self, facility))
            })
            .clone();
        published.is_published = true;
        let before = self.offering.offer();
        let changed = *before != offer;
        let offer = if changed { Arc::new(offer) } else { before };
        if changed {
            for warning in &offer.warnings {
                tracing::warn!(server = %self.name, "{warning}");
            }
            self.offering.offer.store(offer.clone());
        }
        self.shared.registry.set_facilities(&self.slug, facilities(&config, &offer, handlers));
        if changed {
            self.shared.offered();
        }
    }

    /// Publishes the current offer again after the file changed.
    pub(in crate::supervision) fn publish_offer_again(self: &Arc<Self>) {
        let is_published =
            self.offering.published.lock().unwrap_or_else(PoisonError::into_inner).is_published;
        if is_published {
            self.publish_offer(ServerOffer::new(self.offering.offer().lists()));
        }
    }

    pub(in crate::supervision) fn withdraw_offer(&self) {
        let mut published = self.offering.published.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *published).is_published {
            self.offering.offer.store(Arc::default());
            self.shared.registry.set_facilities(&self.slug, []);
            self.shared.offered();
        }
    }
}

/// The facilities to register for an offer.
fn facilities(config: &ServerConfig, offer: &ServerOffer, [resources, prompts]: [Arc<Run>; 2]) -> Vec<Tool> {
    let mut facilities = Vec::new();
    if offer.resources.is_some() {
        facilities.push(Tool::upstream(spec(config, Facility::Resources, Vec::new()), resources));
    }
    if let Some(listed) = &offer.prompts {
        // A scope may name one prompt, like one action of a tool.
        let names: BTreeSet<String> = listed.iter().filter_map(prompt_of).collect();
        let action = |name| Action { name: Cow::Owned(name), access: Access::READ };
        let actions = names.into_iter().map(action).collect();
        facilities.push(Tool::upstream(spec(config, Facility::Prompts, actions), prompts));
    }
    facilities
}

/// A prompt's name in scopes.
fn prompt_of(prompt: &Map<String, Value>) -> Option<String> {
    prompt.get("name")?.as_str().map(tool_name::sanitized)
}

fn spec(config: &ServerConfig, facility: Facility, actions: Vec<Action>) -> ToolSpec {
    let word = facility.as_str();
    ToolSpec {
        name: Cow::Owned(facility.name(&config.slug)),
        title: Cow::Borrowed(word),
        description: Cow::Borrowed(""),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        access: Access { bufferable: false, ..Access::READ },
        actions,
        placement: Placement::Upstream(Arc::new(UpstreamTool {
            bare: config.bare_names,
            ..UpstreamTool::new(config.slug.clone(), word)
        })),
        deadline: config.timeout,
        admin: false,
        time: None,
        starts_agents: false,
        handling: plexus_tools::Handling::default(),
    }
}

/// The handler that reads a resource or gets a prompt. It refers only to the unit, so it stays valid when the
/// server's connection or file changes.
fn handler(unit: &Arc<Unit>, facility: Facility) -> Arc<Run> {
    let unit = Arc::downgrade(unit);
    Arc::new(move |context, arguments| {
        let unit = unit.clone();
        Box::pin(async move { run(&unit, facility, context, arguments).await })
    })
}

async fn run(
    unit: &Weak<Unit>,
    facility: Facility,
    context: ToolContext,
    arguments: Value,
) -> Result<Outcome, CallError> {
    let removed_error = || CallError::new(ErrorCode::UnknownTool, "the server was removed");
    let unit = unit.upgrade().ok_or_else(removed_error)?;
    let Value::Object(params) = arguments else { return Err(removed_error()) };
    let (method, member) = match facility {
        Facility::Resources => (Method::ReadResource, "contents"),
        Facility::Prompts => (Method::GetPrompt, "messages"),
    };
    if facility == Facility::Prompts && !may_get(&context, &unit.slug, &params) {
        return Err(CallError::new(ErrorCode::UnknownTool, "no such prompt is available to you"));
    }
    let text = call::request(&unit, &context, Request::new(method, params)).await?;
    let unusable = |problem: String| {
        let message = format!("the answer of {} is invalid: {problem}", unit.name);
        CallError::new(ErrorCode::ToolFailed, message)
    };
    let result: &RawValue = serde_json::from_slice(&text).map_err(|error| unusable(error.to_string()))?;
    let members: std::collections::BTreeMap<String, &RawValue> =
        serde_json::from_str(result.get()).map_err(|error| unusable(error.to_string()))?;
    if !members.get(member).is_some_and(|value| value.get().starts_with('[')) {
        return Err(unusable(format!("it has no {member:?} that is an array")));
    }
    Ok(Outcome::Ready(ToolOutput::Passed(RawJson::within(&text, result))))
}

/// The result of a completion, over the shared connection.
pub(in crate::supervision) async fn complete(
    unit: &Unit,
    params: Map<String, Value>,
) -> Result<Option<Bytes>, CompletionError> {
    let Some(client) = unit.client.load_full().filter(|client| !client.has_ended()) else {
        unit.called.notify_one();
        return Ok(None);
    };
    let uncompleted = |message: &str, is_about_params| {
        let message = format!("{} returned no completion: {}", unit.name, for_callers(message));
        Err(CompletionError { message, is_about_params })
    };
    // The caller of a completion is unknown here, so the server's questions are attributed to nobody while it
    // runs.
    let _present = client.present(Bridge::default());
    match client.request(Request::new(Method::Complete, params)).await {
        Ok(RequestResponse::Result(text)) => Ok(Some(text)),
        Ok(RequestResponse::Ask { .. }) => {
            uncompleted("it asked a question, which a completion cannot answer", false)
        }
        Err(ClientError::Rpc { code, message, .. }) => uncompleted(&message, code == INVALID_PARAMS),
        Err(error) => uncompleted(&error.to_string(), false),
    }
}

/// Whether a scope covers this prompt; a scope may name single prompts.
fn may_get(context: &ToolContext, server: &str, params: &Map<String, Value>) -> bool {
    let scope = format!("call:{}", Facility::Prompts.name(server));
    let one = prompt_of(params).map(|prompt| format!("{scope}.{prompt}"));
    context.principal.allows(&scope) || one.is_some_and(|one| context.principal.allows(&one))
}
