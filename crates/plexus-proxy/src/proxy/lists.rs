//! The tools of the agent: as the hub listed them last, kept on disk, narrowed to the circumstances.
//!
//! The list is that of the agent's token and of nothing else. It is fetched in the newest revision and cut for older ones, so
//! one copy serves every client. Clients are told of a change when other names are visible than before.

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

use super::hub::{Failure, Hub};
use super::visibility::{self, Context};

const FILE: &str = "lists.json";
/// Pages of one list; more are not asked for.
const MAX_PAGES: usize = 200;

/// What of a tool may be kept while the hub is away.
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
    repeats: bool,
}

impl Tool {
    /// The name of a tool and the rest; none of what is no tool.
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
        let repeats = definition.get().contains("x-mcp-header");
        Some((name, Arc::new(Self { definition, bufferable, placement, repeats })))
    }
}

/// What was listed last.
#[derive(Debug, Clone, Default)]
struct Known {
    tools: BTreeMap<String, Arc<Tool>>,
    context: Context,
    instructions: String,
    /// What stands for the list at the hub.
    fingerprint: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Stored<T> {
    /// Mark of the credential that they were listed for.
    credential: String,
    tools: Vec<T>,
    context: Context,
    #[serde(default)]
    instructions: String,
}

impl Known {
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

pub(super) struct Lists {
    /// None: nothing is kept on disk.
    file: Option<PathBuf>,
    /// Mark of the credential.
    credential: String,
    known: ArcSwap<Known>,
    /// One change at a time.
    change: Mutex<Told>,
    /// Counts how often the hub was asked.
    asked: AtomicU64,
    /// Counts how often other names were visible.
    changes: watch::Sender<u64>,
}

/// What of the lists is known elsewhere.
struct Told {
    /// The names that clients know of.
    names: BTreeSet<String>,
    /// Which answer of the hub was taken last: one that was asked for before is out of date.
    taken: u64,
}

impl fmt::Debug for Lists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lists").field("tools", &self.known.load().tools.len()).finish_non_exhaustive()
    }
}

impl Lists {
    /// With what was known before, if it is kept in this folder.
    pub(super) fn open(folder: Option<&Path>, credential: String) -> Self {
        let file = folder.map(|folder| folder.join(FILE));
        let known = file.as_deref().and_then(|file| read(file, &credential)).unwrap_or_default();
        Self {
            change: Mutex::new(Told { names: known.names(), taken: 0 }),
            asked: AtomicU64::new(0),
            credential,
            known: ArcSwap::from_pointee(known),
            changes: watch::Sender::new(0),
            file,
        }
    }

    /// Moves on when other names are visible.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn instructions(&self) -> String {
        self.known.load().instructions.clone()
    }

    /// Keeps what the hub said to a client.
    pub(super) fn note_instructions(&self, instructions: &str) {
        if self.known.load().instructions != instructions {
            self.update(|known, _| known.instructions = instructions.to_owned());
        }
    }

    pub(super) fn note_context(&self, context: &Context) {
        if self.known.load().context != *context {
            self.update(|known, _| known.context = context.clone());
        }
    }

    /// What stands for the list at the hub, if it is the one that is known here.
    pub(super) fn fingerprint(&self) -> Option<String> {
        self.known.load().fingerprint.clone()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.load().tools.is_empty()
    }

    /// Forgets all of it: the hub does not let the agent in. What is asked for now comes too late.
    pub(super) fn forget(&self) {
        self.update(|known, taken| {
            *known = Known::default();
            *taken = self.asked.load(Ordering::Relaxed);
        });
        if let Some(file) = &self.file
            && let Err(error) = fs_err::remove_file(file)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "the list of tools cannot be removed");
        }
    }

    /// Takes the list of the hub, all pages of it, with the circumstances and what stands for the list where they are known.
    /// One that fails leaves the last good one.
    pub(super) async fn refresh(
        &self,
        hub: &Hub,
        patience: Duration,
        said: Option<(Context, String)>,
    ) -> Result<(), Failure> {
        let ticket = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let tools = fetch(hub, patience).await?;
        let tools: BTreeMap<_, _> = tools.into_iter().filter_map(Tool::read).collect();
        self.update(|known, taken| {
            if ticket <= *taken {
                return;
            }
            *taken = ticket;
            known.tools = tools;
            if let Some((context, fingerprint)) = said {
                known.context = context;
                known.fingerprint = Some(fingerprint);
            }
        });
        Ok(())
    }

    fn update(&self, change: impl FnOnce(&mut Known, &mut u64)) {
        let mut told = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.known.load_full();
        let mut known = Known::clone(&before);
        change(&mut known, &mut told.taken);
        if known.same_as(&before) {
            self.known.store(Arc::new(known));
            return;
        }
        if let Some(file) = &self.file
            && let Err(error) = write(file, &self.credential, &known)
        {
            tracing::warn!(%error, "the list of tools cannot be kept for when the hub is away");
        }
        let visible = known.names();
        self.known.store(Arc::new(known));
        if told.names != visible {
            told.names = visible;
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// The visible tools as a client of this revision reads them, with commas in between.
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

    /// Whether a call with these arguments may be kept while the hub is away.
    pub(super) fn is_bufferable(&self, tool: &str, arguments: &Value) -> bool {
        let known = self.known.load();
        let Some(found) = known.tools.get(tool) else { return false };
        match &found.bufferable {
            // What is called through it is what counts.
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

    /// Whether some tool may be kept at all, so that its arguments are worth a look.
    pub(super) fn may_buffer(&self, tool: &str) -> bool {
        tool == "tool_call"
            || self.known.load().tools.get(tool).is_some_and(|tool| tool.bufferable != Bufferable::Nothing)
    }

    /// The schema of a tool whose arguments are repeated in headers.
    pub(super) fn repeating(&self, tool: &str) -> Option<Value> {
        let known = self.known.load();
        let found = known.tools.get(tool).filter(|tool| tool.repeats)?;
        let mut definition: Map<String, Value> = serde_json::from_str(found.definition.get()).ok()?;
        definition.remove("inputSchema")
    }
}

async fn fetch(hub: &Hub, patience: Duration) -> Result<Vec<Box<RawValue>>, Failure> {
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
        let asked = async {
            let reply = hub.mcp(&Method::POST, headers, &body).await?;
            let status = reply.status();
            let answer = reply.whole().await.map_err(|error| hub.noted(error.into()))?;
            let strange =
                |what: &str| Failure::Away { why: format!("the hub's list of tools {what}"), sent: true };
            if !status.is_success() {
                return Err(strange(&format!("was answered {status}")));
            }
            let answer: Answer = serde_json::from_slice(&answer)
                .map_err(|error| strange(&format!("cannot be read: {error}")))?;
            answer.result.ok_or_else(|| strange("is an error"))
        };
        let page = tokio::time::timeout(patience, asked).await;
        let page = page.unwrap_or_else(|_| Err(hub.noted(Failure::Late(patience))))?;
        all.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(all)
}

fn read(file: &Path, credential: &str) -> Option<Known> {
    let content = match private_file::read(file) {
        Ok(content) => content?,
        Err(error) => {
            tracing::warn!(%error, "the list of tools that was kept cannot be read");
            return None;
        }
    };
    let stored: Stored<Box<RawValue>> = match serde_json::from_slice(&content) {
        Ok(stored) => stored,
        Err(error) => {
            tracing::warn!(%error, "the list of tools that was kept is damaged; it is fetched again");
            return None;
        }
    };
    // Another token sees other tools.
    let stored = Some(stored).filter(|stored| stored.credential == credential)?;
    let tools = stored.tools.into_iter().filter_map(Tool::read).collect();
    let Stored { context, instructions, .. } = stored;
    Some(Known { tools, context, instructions, fingerprint: None })
}

fn write(file: &Path, credential: &str, known: &Known) -> std::io::Result<()> {
    let tools = known.tools.values().map(|tool| &*tool.definition).collect();
    let (context, instructions) = (known.context.clone(), known.instructions.clone());
    let text =
        serde_json::to_vec(&Stored { credential: credential.to_owned(), tools, context, instructions })?;
    private_file::write_unsynced(file, &text)
}

#[cfg(test)]
mod tests;
