//! Lists: rendered once per token and catalogue, sliced into pages. That of tools is here, the others are in `offers`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use moka::sync::Cache;
use plexus_auth::Principal;
use plexus_proto::TokenId;
use plexus_tools::{Registry, Tool, UpstreamTool};
use serde_json::json;
use serde_json::value::RawValue;

use super::rpc::{self, RpcError};
use super::version::Features;

/// Entries on a page. Large, because clients exist that never ask for a second one.
const PAGE: usize = 500;
/// How long a list is kept that nobody asks for.
const IDLE: Duration = Duration::from_secs(3_600);

/// A principal's list as JSON texts, in order of their names.
#[derive(Debug)]
pub(super) struct Rendered {
    /// Of everything that it was made from.
    version: (u64, u64),
    /// The member of the result that it is.
    member: &'static str,
    entries: Vec<(String, String)>,
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
        Self { version, member, entries }
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
    json.to_string()
}

/// What another server says of its tool, under our name and with the schema that our callers have to fill.
fn foreign_json(tool: &Tool, upstream: &UpstreamTool, features: Features) -> String {
    let mut json = upstream.definition.clone();
    json.insert("name".to_owned(), json!(tool.name()));
    json.insert("inputSchema".to_owned(), tool.spec().input_schema.clone());
    if !features.annotations {
        json.remove("annotations");
    }
    if !features.structured {
        json.remove("title");
        json.remove("outputSchema");
    }
    let is_object = json.get("outputSchema").is_some_and(|schema| schema["type"] == "object");
    if !is_object && !features.any_data {
        json.remove("outputSchema");
    }
    serde_json::Value::Object(json).to_string()
}
