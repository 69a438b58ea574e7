//! The agent's tools as the hub listed them last, stored on disk, and filtered by context.
//!
//! The list belongs to the agent's token. It is fetched in the newest revision and adapted to older ones, so one copy
//! serves all clients. Clients are notified when the visible names change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::Method;
use plexus_kit::private_file;
use plexus_mcp::relay::{self, BUFFERABLE, Dialect, PLACEMENT, StatelessRequest};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::hub::{Hub, HubFailure};
use super::visibility::{self, VisibilityContext};

const FILE: &str = "lists.json";
/// Maximum number of pages fetched.
const MAX_PAGES: usize = 200;

/// Which calls of a tool may be queued while the hub is away.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Bufferable {
    Nothing,
    Everything,
    Actions(BTreeSet<String>),
}

#[derive(Debug)]
struct Tool {
    definition: Box<RawValue>,
    bufferable: Bufferable,
    placement: Option<String>,
    /// Some of its arguments are repeated in headers.
    has_header_arguments: bool,
}

impl Tool {
    /// Parses a definition; none if it is invalid.
    fn read(definition: Box<RawValue>) -> Option<(String, Arc<Self>)> {
        #[derive(Deserialize)]
        struct Read {
            name: String,
            #[serde(rename = "_meta", default)]
            meta: Map<String, Value>,
        }
        let Read { name, meta } = serde_json::from_str(definition.get()).ok()?;
        let bufferable = match meta.get(BUFFERABLE) {
            Some(Value::Bool(true)) => Bufferable::Everything,
            Some(Value::Array(actions)) => {
                Bufferable::Actions(actions.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            _ => Bufferable::Nothing,
        };
        let placement = meta.get(PLACEMENT).and_then(Value::as_str).map(str::to_owned);
        let has_header_arguments = definition.get().contains("x-mcp-header");
        Some((name, Arc::new(Self { definition, bufferable, placement, has_header_arguments })))
    }
}

/// The last known list.
#[derive(Debug, Clone, Default)]
struct KnownTools {
    tools: BTreeMap<String, Arc<Tool>>,
    context: VisibilityContext,
    instructions: String,
    /// The hub's fingerprint of the list.
    fingerprint: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Stored<T> {
    /// Fingerprint of the credential source that the list belongs to.
    credential: String,
    tools: Vec<T>,
    context: VisibilityContext,
    #[serde(default)]
    instructions: String,
}

impl KnownTools {
    fn visible(&self) -> impl Iterator<Item = (&String, &Arc<Tool>)> {
        self.tools.iter().filter(|(_, tool)| visibility::is_shown(tool.placement.as_deref(), &self.context))
    }

    fn names(&self) -> BTreeSet<String> {
        self.visible().map(|(name, _)| name.clone()).collect()
    }

    fn same_as(&self, other: &Self) -> bool {
        self.context == other.context
            && self.instructions == other.instructions
            && self
                .tools
                .values()
                .map(|t| t.definition.get())
                .eq(other.tools.values().map(|t| t.definition.get()))
    }
}

pub(super) struct ToolList {
    /// None if nothing is stored on disk.
    file: Option<PathBuf>,
    /// Fingerprint of the credential source.
    credential: String,
    known: ArcSwap<KnownTools>,
    /// Held during a change.
    published: Mutex<Published>,
    /// Number of requests to the hub for the list.
    requested: AtomicU64,
    /// Number of changes of the visible names.
    changes: watch::Sender<u64>,
}

/// The state known to others.
struct Published {
    /// The names that clients know.
    names: BTreeSet<String>,
    /// Number of the newest request whose answer was applied; answers to earlier requests are stale.
    applied: u64,
}

impl fmt::Debug for ToolList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolList").field("tools", &self.known.load().tools.len()).finish_non_exhaustive()
    }
}

impl ToolList {
    /// Opens the list stored in the folder, if there is one.
    pub(super) fn open(folder: Option<&Path>, credential: String) -> Self {
        let file = folder.map(|folder| folder.join(FILE));
        let known = file.as_deref().and_then(|file| read(file, &credential)).unwrap_or_default();
        Self {
            published: Mutex::new(Published { names: known.names(), applied: 0 }),
            requested: AtomicU64::new(0),
            credential,
            known: ArcSwap::from_pointee(known),
            changes: watch::Sender::new(0),
            file,
        }
    }

    /// Subscribes to changes of the visible names.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn instructions(&self) -> String {
        self.known.load().instructions.clone()
    }

    /// Remembers the instructions that the hub sent to a client.
    pub(super) fn note_instructions(&self, instructions: &str) {
        if self.known.load().instructions != instructions {
            self.update(|known, _| known.instructions = instructions.to_owned());
        }
    }

    pub(super) fn note_context(&self, context: &VisibilityContext) {
        if self.known.load().context != *context {
            self.update(|known, _| known.context = context.clone());
        }
    }

    /// The hub's fingerprint of the known list.
    pub(super) fn fingerprint(&self) -> Option<String> {
        self.known.load().fingerprint.clone()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.load().tools.is_empty()
    }

    /// Deletes the list, because the hub refuses the agent. Answers to pending requests are ignored.
    pub(super) fn forget(&self) {
        self.update(|known, applied| {
            *known = KnownTools::default();
            *applied = self.requested.load(Ordering::Relaxed);
        });
        if let Some(file) = &self.file
            && let Err(error) = fs_err::remove_file(file)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "cannot delete the stored list of tools");
        }
    }

    /// Fetches all pages of the hub's list. `described`: the context and the fingerprint of the list, if known. A
    /// failure keeps the last list.
    pub(super) async fn refresh(
        &self,
        hub: &Hub,
        time_limit: Duration,
        described: Option<(VisibilityContext, String)>,
    ) -> Result<(), HubFailure> {
        let ticket = self.requested.fetch_add(1, Ordering::Relaxed) + 1;
        let tools = fetch(hub, time_limit).await?;
        let tools: BTreeMap<_, _> = tools.into_iter().filter_map(Tool::read).collect();
        self.update(|known, applied| {
            if ticket <= *applied {
                return;
            }
            *applied = ticket;
            known.tools = tools;
            if let Some((context, fingerprint)) = described {
                known.context = context;
                known.fingerprint = Some(fingerprint);
            }
        });
        Ok(())
    }

    fn update(&self, change: impl FnOnce(&mut KnownTools, &mut u64)) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.known.load_full();
        let mut known = KnownTools::clone(&before);
        change(&mut known, &mut published.applied);
        if known.same_as(&before) {
            self.known.store(Arc::new(known));
            return;
        }
        if let Some(file) = &self.file
            && let Err(error) = write(file, &self.credential, &known)
        {
            tracing::warn!(%error, "cannot store the list of tools for the time when the hub is away");
        }
        let visible = known.names();
        self.known.store(Arc::new(known));
        if published.names != visible {
            published.names = visible;
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// The visible tools in the form of this revision, as comma-separated JSON.
    pub(super) fn text(&self, dialect: Dialect) -> String {
        let known = self.known.load();
        let mut text = String::new();
        for (_, tool) in known.visible() {
            if !text.is_empty() {
                text.push(',');
            }
            match (dialect, serde_json::from_str::<Map<String, Value>>(tool.definition.get())) {
                (Dialect::Session(_), Ok(mut definition)) => {
                    relay::remove_unsupported_members(&mut definition, dialect);
                    text.push_str(&Value::Object(definition).to_string());
                }
                _ => text.push_str(tool.definition.get()),
            }
        }
        text
    }

    /// Whether a call with these arguments may be queued while the hub is away.
    pub(super) fn is_bufferable(&self, tool: &str, arguments: &Value) -> bool {
        let known = self.known.load();
        let Some(found) = known.tools.get(tool) else { return false };
        match &found.bufferable {
            // The called tool decides.
            Bufferable::Nothing if tool == "tool_call" => arguments["name"]
                .as_str()
                .filter(|name| *name != "tool_call")
                .is_some_and(|name| self.is_bufferable(name, &arguments["arguments"])),
            Bufferable::Nothing => false,
            Bufferable::Everything => true,
            Bufferable::Actions(actions) => {
                arguments["action"].as_str().is_some_and(|action| actions.contains(action))
            }
        }
    }

    /// Whether calls of the tool may be bufferable, depending on their arguments.
    pub(super) fn may_buffer(&self, tool: &str) -> bool {
        tool == "tool_call"
            || self.known.load().tools.get(tool).is_some_and(|tool| tool.bufferable != Bufferable::Nothing)
    }

    /// The schema of a tool, if some of its arguments are repeated in headers.
    pub(super) fn header_arguments_schema(&self, tool: &str) -> Option<Value> {
        let known = self.known.load();
        let found = known.tools.get(tool).filter(|tool| tool.has_header_arguments)?;
        let mut definition: Map<String, Value> = serde_json::from_str(found.definition.get()).ok()?;
        definition.remove("inputSchema")
    }
}

async fn fetch(hub: &Hub, time_limit: Duration) -> Result<Vec<Box<RawValue>>, HubFailure> {
    #[derive(Deserialize)]
    struct Answer {
        result: Option<Page>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Page {
        tools: Vec<Box<RawValue>>,
        next_cursor: Option<String>,
    }
    let mut all = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let params = cursor.take().map(|cursor| ("cursor".to_owned(), cursor.into())).into_iter().collect();
        let request =
            StatelessRequest { method: "tools/list", name: None, params, client: None, write: None };
        let (headers, body) = request.build();
        let body = Bytes::from(body);
        let exchange = async {
            let reply = hub.mcp(&Method::POST, headers, &body).await?;
            let status = reply.status();
            let answer = reply.bytes().await.map_err(|error| hub.record_failure(error.into()))?;
            let invalid =
                |what: &str| HubFailure::Away { why: format!("the hub's list of tools {what}"), sent: true };
            if !status.is_success() {
                return Err(invalid(&format!("was answered with {status}")));
            }
            let answer: Answer = serde_json::from_slice(&answer)
                .map_err(|error| invalid(&format!("cannot be read: {error}")))?;
            answer.result.ok_or_else(|| invalid("is an error"))
        };
        let page = tokio::time::timeout(time_limit, exchange).await;
        let page = page.unwrap_or_else(|_| Err(hub.record_failure(HubFailure::TimedOut(time_limit))))?;
        all.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(all)
}

fn read(file: &Path, credential: &str) -> Option<KnownTools> {
    let content = match private_file::read(file) {
        Ok(content) => content?,
        Err(error) => {
            tracing::warn!(%error, "cannot read the stored list of tools");
            return None;
        }
    };
    let stored: Stored<Box<RawValue>> = match serde_json::from_slice(&content) {
        Ok(stored) => stored,
        Err(error) => {
            tracing::warn!(%error, "the stored list of tools is damaged; it is fetched again");
            return None;
        }
    };
    // Another token may see other tools.
    let stored = Some(stored).filter(|stored| stored.credential == credential)?;
    let tools = stored.tools.into_iter().filter_map(Tool::read).collect();
    let Stored { context, instructions, .. } = stored;
    Some(KnownTools { tools, context, instructions, fingerprint: None })
}

fn write(file: &Path, credential: &str, known: &KnownTools) -> std::io::Result<()> {
    let tools = known.tools.values().map(|tool| &*tool.definition).collect();
    let (context, instructions) = (known.context.clone(), known.instructions.clone());
    let text =
        serde_json::to_vec(&Stored { credential: credential.to_owned(), tools, context, instructions })?;
    private_file::write_unsynced(file, &text)
}

#[cfg(test)]
mod tests;
