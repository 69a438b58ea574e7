//! Says in the log of events who comes and goes.
//!
//! These events are of no session of a client. They are in one of the hub's own, which whoever may read all sessions sees.

use std::fmt;

use plexus_kit::{Clock, Stage, Supervisor};
use plexus_proto::{EventKind, NewEvent, SessionId};
use plexus_store::{Records, Store, StoreError};
use plexus_tools::nodes::LOCAL;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::unit::Unit;

/// Who these events are of.
const OWNER: &str = "hub";
const KEY: &str = "nodes";
/// Those that wait to be written; more are left out, and the next says so in the log.
const WAITING: usize = 1024;

#[derive(Clone)]
pub(super) struct Announcer {
    events: mpsc::Sender<NewEvent>,
    clock: Clock,
}

impl fmt::Debug for Announcer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Announcer").finish_non_exhaustive()
    }
}

impl Announcer {
    pub(super) fn start(store: Store, clock: Clock, supervisor: &Supervisor) -> Self {
        let (events, mut waiting) = mpsc::channel(WAITING);
        let (stop, now) = (supervisor.stopping(Stage::Work), clock.clone());
        supervisor.spawn(Stage::Work, "events of nodes", async move {
            let mut session = None;
            loop {
                let event = tokio::select! {
                    biased;
                    event = waiting.recv() => event,
                    () = stop.cancelled() => None,
                };
                let Some(event) = event else { return };
                if let Err(error) = append(&store, &now, &mut session, event).await {
                    tracing::warn!(%error, "who comes and goes of the nodes cannot be recorded");
                }
            }
        });
        Self { events, clock }
    }

    /// Calls get through to it. The hub's own machine comes and goes with the hub, which is no news.
    pub(super) fn online(&self, unit: &Unit) {
        let (name, about) = {
            let mut state = unit.lock();
            if state.known.name == LOCAL || std::mem::replace(&mut state.told, true) {
                return;
            }
            let said = &state.said;
            let about = json!({
                "version": said.version, "os": said.os, "arch": said.arch, "transport": state.transport(),
            });
            (state.known.name.clone(), about)
        };
        self.tell("node_online", unit, &name, about);
    }

    /// They do not.
    pub(super) fn offline(&self, unit: &Unit, why: &str) {
        let name = {
            let mut state = unit.lock();
            if !std::mem::replace(&mut state.told, false) {
                return;
            }
            state.known.name.clone()
        };
        self.tell("node_offline", unit, &name, json!({ "reason": why }));
    }

    fn tell(&self, kind: &str, unit: &Unit, name: &str, mut payload: Value) {
        tracing::info!(node = %unit.id, name, kind, "a node comes or goes");
        if let Some(payload) = payload.as_object_mut() {
            payload.insert("node_id".to_owned(), unit.id.to_string().into());
            payload.insert("node".to_owned(), name.into());
        }
        let event = NewEvent {
            at: self.clock.now(),
            kind: EventKind::Other(kind.to_owned()),
            actor: OWNER.to_owned(),
            payload: payload.to_string(),
            external_id: None,
        };
        if self.events.try_send(event).is_err() {
            tracing::warn!(kind, name, "an event of a node was left out: too many wait to be written");
        }
    }
}

async fn append(
    store: &Store,
    clock: &Clock,
    session: &mut Option<SessionId>,
    event: NewEvent,
) -> Result<(), StoreError> {
    let id = match session {
        Some(id) => *id,
        None => {
            let now = clock.now();
            let made = store.write(move |conn| Box::pin(conn.ensure_session(OWNER, KEY, None, now))).await?;
            *session.insert(made)
        }
    };
    store.append(Records { audit: Vec::new(), events: vec![(id, event)] }).await
}
