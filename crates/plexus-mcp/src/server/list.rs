//! Lists: rendered once per token and catalogue, sliced into pages. That of tools is here, the others are in `offers`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use moka::sync::Cache;
use plexus_auth::Principal;
use plexus_kit::hex;
use plexus_proto::TokenId;
use plexus_tools::{Buffered, Placement, Registry, Tool, ToolSpec, UpstreamTool};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::rpc::{self, RpcError};
use crate::version::Features;

/// Entries on a page. Large, because clients exist that never ask for a second one.
const PAGE: usize = 500;
/// How long a list is kept that nobody asks for.
const IDLE: Duration = Duration::from_secs(3_600);

/// What keys of `_meta` begin with that no other server may set.
const OURS: &str = "plexus/";
/// Which calls of a tool may be kept while the hub is away: `true`, or the names of actions.
pub const BUFFERABLE: &str = "plexus/bufferable";
/// Where a tool runs, if that is on a machine: `node`, or `node:<name>` if it is always the same.
pub const PLACEMENT: &str = "plexus/placement";

/// A principal's list as JSON texts, in order of their names.
#[derive(Debug)]
pub(super) struct Rendered {
    /// Of everything that it was made from.
    version: (u64, u64),
    /// The member of the result that it is.
    member: &'static str,
    entries: Vec<(String, String)>,
    /// Made when it is first asked for.
    digest: OnceLock<String>,
}

#[derive(Debug)]
pub(super) struct ListCache(Cache<(TokenId, Features), Arc<Rendered>>);

impl Default for ListCache {
    fn default() -> Self {
        Self(Rendered::cache())
    }
}

impl ListCache {
    pub(super) fn rendered(
        &self,
        registry: &Registry,
        principal: &Principal,
        features: Features,
    ) -> Arc<Rendered> {
        let visible = registry.visible_to(principal);
        let key = (principal.token_id(), features);
        if let Some(rendered) = self.0.get(&key)
            && rendered.version == (visible.version(), 0)
        {
            return rendered;
        }
        let tools =
            visible.listed_tools().map(|tool| (tool.name().to_owned(), tool_json(tool, features))).collect();
        let rendered = Arc::new(Rendered::new((visible.version(), 0), "tools", tools));
        self.0.insert(key, rendered.clone());
        rendered
    }
}

/// Bytes that rendered lists of one kind take together; the least used go.
const KEPT: u64 = 32 << 20;

impl Rendered {
    /// Keeps lists by what they were rendered for, as long as they are asked for: tokens come and go.
    pub(super) fn cache<K: Hash + Eq + Send + Sync + 'static>() -> Cache<K, Arc<Self>> {
        let size = |_: &K, list: &Arc<Self>| u32::try_from(list.size()).unwrap_or(u32::MAX).max(1);
        Cache::builder().weigher(size).max_capacity(KEPT).time_to_idle(IDLE).build()
    }

    /// Entries by name, in order of their names.
    pub(super) fn new(version: (u64, u64), member: &'static str, entries: Vec<(String, String)>) -> Self {
        Self { version, member, entries, digest: OnceLock::new() }
    }

    pub(super) fn version(&self) -> (u64, u64) {
        self.version
    }

    /// Bytes that it takes, about.
    pub(super) fn size(&self) -> usize {
        self.entries.iter().map(|(name, json)| name.len() + json.len() + 48).sum()
    }

    /// Whether a client that saw `self` would see the same in `other`.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        self.entries == other.entries
    }

    /// Stands for what is in the list, and so for nothing that this principal may not see.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.entries.hash(&mut hasher);
        hasher.finish()
    }

    /// The same for who compares it with that of another hub, or of this one before a restart.
    pub(super) fn digest(&self) -> &str {
        self.digest.get_or_init(|| {
            let mut hasher = digest::Context::new(&digest::SHA256);
            for text in self.entries.iter().flat_map(|(name, json)| [name, json]) {
                hasher.update(&(text.len() as u64).to_be_bytes());
                hasher.update(text.as_bytes());
            }
            hex::encode(&hasher.finish().as_ref()[..16])
        })
    }

    /// `"<member>":[…]` and, if there are more, `"nextCursor":"…"`, without the braces around them.
    pub(super) fn page(&self, cursor: Option<&RawValue>) -> Result<String, RpcError> {
        let start = match cursor {
            None => 0,
            Some(cursor) => {
                let after = decode(cursor)
                    .ok_or_else(|| RpcError::invalid_params("the cursor is not one of ours"))?;
                self.entries.partition_point(|(name, _)| *name <= after)
            }
        };
        let end = (start + PAGE).min(self.entries.len());
        let mut json = format!("\"{}\":[", self.member);
        for (index, (_, entry)) in self.entries[start..end].iter().enumerate() {
            if index > 0 {
                json.push(',');
            }
            json.push_str(entry);
        }
        json.push(']');
        if end < self.entries.len() {
            json.push_str(&format!(",\"nextCursor\":\"{}\"", encode(&self.entries[end - 1].0)));
        }
        Ok(json)
    }
}

/// A cursor is the name of the last entry shown: it holds when others come and go in between.
fn encode(name: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("after:{name}"))
}

fn decode(cursor: &RawValue) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(rpc::text(Some(cursor))?).ok()?;
    String::from_utf8(bytes).ok()?.strip_prefix("after:").map(str::to_owned)
}

fn tool_json(tool: &Tool, features: Features) -> String {
    let spec = tool.spec();
    if let Some(upstream) = spec.upstream() {
        return foreign_json(tool, upstream, features);
    }
    let mut json = json!({
        "name": tool.name(),
        "description": spec.description,
        "inputSchema": spec.input_schema,
    });
    if features.annotations {
        json["annotations"] = json!(spec.access.annotations);
    }
    if features.structured {
        json["title"] = json!(spec.title);
        if let Some(schema) = &spec.output_schema {
            json["outputSchema"] = schema.clone();
        }
    }
    let meta = our_meta(spec);
    if !meta.is_empty() {
        json["_meta"] = Value::Object(meta);
    }
    json.to_string()
}

/// What programs between a client and the hub have to know of a tool, and clients may.
fn our_meta(spec: &ToolSpec) -> Map<String, Value> {
    let mut meta = Map::new();
    match spec.buffered() {
        Buffered::Never => {}
        Buffered::Always => drop(meta.insert(BUFFERABLE.to_owned(), json!(true))),
        Buffered::Actions(names) => drop(meta.insert(BUFFERABLE.to_owned(), json!(names))),
    }
    let node = match &spec.placement {
        Placement::Hub | Placement::Custom => None,
        Placement::Node => Some("node".to_owned()),
        Placement::Upstream(upstream) => upstream.node.as_ref().map(|host| format!("node:{}", host.name)),
    };
    if let Some(node) = node {
        meta.insert(PLACEMENT.to_owned(), Value::String(node));
    }
    meta
}

/// Takes from the definition of a tool what a revision does not know.
pub(crate) fn fit(tool: &mut Map<String, Value>, features: Features) {
    if !features.annotations {
        tool.remove("annotations");
    }
    if !features.structured {
        tool.remove("title");
        tool.remove("outputSchema");
    }
    let is_object = tool.get("outputSchema").is_some_and(|schema| schema["type"] == "object");
    if !is_object && !features.any_data {
        tool.remove("outputSchema");
    }
}

/// What another server says of its tool, under our name and with the schema that our callers have to fill. What only we may
/// say, it cannot: a server does not make its tools bufferable.
fn foreign_json(tool: &Tool, upstream: &UpstreamTool, features: Features) -> String {
    let mut json = upstream.definition.clone();
    json.insert("name".to_owned(), json!(tool.name()));
    json.insert("inputSchema".to_owned(), tool.spec().input_schema.clone());
    fit(&mut json, features);
    let mut meta = match json.remove("_meta") {
        Some(Value::Object(theirs)) => theirs,
        _ => Map::new(),
    };
    meta.retain(|name, _| !name.starts_with(OURS));
    meta.extend(our_meta(tool.spec()));
    if !meta.is_empty() {
        json.insert("_meta".to_owned(), Value::Object(meta));
    }
    Value::Object(json).to_string()
}
