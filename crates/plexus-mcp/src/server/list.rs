//! Lists, rendered once per token and catalog and returned in pages. The list of tools is here, the others are in
//! `offers`.

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

/// Entries on a page. Large, because some clients never request a second page.
const PAGE_SIZE: usize = 500;
/// Time after which an unused list is dropped from the cache.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Prefix of `_meta` keys that no other server may set.
const RESERVED_META: &str = "plexus/";
/// `_meta` key of the calls that a proxy may buffer while the hub is unreachable: `true`, or the names of actions.
pub const BUFFERABLE: &str = "plexus/bufferable";
/// `_meta` key of the machine that a tool runs on: `node`, or `node:<name>` if it is always the same one.
pub const PLACEMENT: &str = "plexus/placement";

/// A principal's list as JSON, ordered by name.
#[derive(Debug)]
pub(super) struct RenderedList {
    /// The versions of the sources it was rendered from.
    version: (u64, u64),
    /// The name of the result's member.
    member: &'static str,
    entries: Vec<(String, String)>,
    /// Computed on first use.
    digest: OnceLock<String>,
}

#[derive(Debug)]
pub(super) struct ListCache(Cache<(TokenId, Features), Arc<RenderedList>>);

impl Default for ListCache {
    fn default() -> Self {
        Self(RenderedList::cache())
    }
}

impl ListCache {
    pub(super) fn rendered(
        &self,
        registry: &Registry,
        principal: &Principal,
        features: Features,
    ) -> Arc<RenderedList> {
        let visible = registry.visible_to(principal);
        let key = (principal.token_id(), features);
        if let Some(rendered) = self.0.get(&key)
            && rendered.version == (visible.version(), 0)
        {
            return rendered;
        }
        let tools =
            visible.listed_tools().map(|tool| (tool.name().to_owned(), tool_json(tool, features))).collect();
        let rendered = Arc::new(RenderedList::new((visible.version(), 0), "tools", tools));
        self.0.insert(key, rendered.clone());
        rendered
    }
}

/// Capacity of a cache of rendered lists, in bytes.
const CACHE_BYTES: u64 = 32 << 20;

impl RenderedList {
    /// A cache of rendered lists, which drops the least used.
    pub(super) fn cache<K: Hash + Eq + Send + Sync + 'static>() -> Cache<K, Arc<Self>> {
        let size = |_: &K, list: &Arc<Self>| u32::try_from(list.size()).unwrap_or(u32::MAX).max(1);
        Cache::builder().weigher(size).max_capacity(CACHE_BYTES).time_to_idle(IDLE_TIMEOUT).build()
    }

    /// Takes the entries by name, ordered by name.
    pub(super) fn new(version: (u64, u64), member: &'static str, entries: Vec<(String, String)>) -> Self {
        Self { version, member, entries, digest: OnceLock::new() }
    }

    pub(super) fn version(&self) -> (u64, u64) {
        self.version
    }

    /// Approximate size in memory, in bytes.
    pub(super) fn size(&self) -> usize {
        self.entries.iter().map(|(name, json)| name.len() + json.len() + 48).sum()
    }

    /// Whether a client sees no difference between the lists.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        self.entries == other.entries
    }

    /// A hash of the entries, which does not depend on anything that this principal cannot see.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.entries.hash(&mut hasher);
        hasher.finish()
    }

    /// A hash of the entries that is the same on every hub and after a restart.
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

    /// `"<member>":[…]` and, if more entries follow, `"nextCursor":"…"`, without the enclosing braces.
    pub(super) fn page(&self, cursor: Option<&RawValue>) -> Result<String, RpcError> {
        let start = match cursor {
            None => 0,
            Some(cursor) => {
                let after = decode(cursor)
                    .ok_or_else(|| RpcError::invalid_params("the cursor is not one from this server"))?;
                self.entries.partition_point(|(name, _)| *name <= after)
            }
        };
        let end = (start + PAGE_SIZE).min(self.entries.len());
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

/// A cursor contains the name of the last returned entry, so it stays valid when entries are added or removed.
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
    let meta = hub_meta(spec);
    if !meta.is_empty() {
        json["_meta"] = Value::Object(meta);
    }
    json.to_string()
}

/// The `_meta` members of a tool for proxies and clients.
fn hub_meta(spec: &ToolSpec) -> Map<String, Value> {
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

/// Removes the members of a tool's definition that a revision does not have.
pub(crate) fn remove_unsupported_members(tool: &mut Map<String, Value>, features: Features) {
    if !features.annotations {
        tool.remove("annotations");
    }
    if !features.structured {
        tool.remove("title");
        tool.remove("outputSchema");
    }
    let is_object = tool.get("outputSchema").is_some_and(|schema| schema["type"] == "object");
    if !is_object && !features.non_object_data {
        tool.remove("outputSchema");
    }
}

/// Another server's tool definition, under the hub's name and with the hub's input schema. Reserved `_meta` keys are
/// removed, so that a server cannot declare its tools bufferable.
fn foreign_json(tool: &Tool, upstream: &UpstreamTool, features: Features) -> String {
    let mut json = upstream.definition.clone();
    json.insert("name".to_owned(), json!(tool.name()));
    json.insert("inputSchema".to_owned(), tool.spec().input_schema.clone());
    remove_unsupported_members(&mut json, features);
    let mut meta = match json.remove("_meta") {
        Some(Value::Object(meta)) => meta,
        _ => Map::new(),
    };
    meta.retain(|name, _| !name.starts_with(RESERVED_META));
    meta.extend(hub_meta(tool.spec()));
    if !meta.is_empty() {
        json.insert("_meta".to_owned(), Value::Object(meta));
    }
    Value::Object(json).to_string()
}
