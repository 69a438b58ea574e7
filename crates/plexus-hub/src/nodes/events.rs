//! Records in the event log when nodes connect and disconnect.
//!
//! These events belong to a session of the hub itself, which is visible to callers who may read all sessions.

use std::fmt;

use plexus_kit::{Clock, Stage, Supervisor};
use plexus_proto::{EventKind, NewEvent, SessionId};
use plexus_store::{Records, Store, StoreError};
use plexus_tools::nodes::LOCAL;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::unit::Unit;

/// Owner of the session.
const OWNER: &str = "hub";
const KEY: &str = "nodes";
/// Maximum number of events waiting to be written; further ones are dropped with a warning.
const MAX_QUEUED: usize = 1024;

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
        let (events, mut queued_events) = mpsc::channel(MAX_QUEUED);
        let (stop, now) = (supervisor.stopping(Stage::Work), clock.clone());
        supervisor.spawn(Stage::Work, "events of nodes", async move {
            let mut session = None;
            loop {
                let event = tokio::select! {
                    biased;
                    event = queued_events.recv() => event,
                    () = stop.cancelled() => None,
                };
                let Some(event) = event else { return };
                if let Err(error) = append(&store, &now, &mut session, event).await {
                    tracing::warn!(%error, "cannot record an event of a node");
                }
            }
        });
        Self { events, clock }
    }

    /// Calls reach the node. The hub's own machine starts and stops with the hub, so it is not recorded.
    pub(super) fn online(&self, unit: &Unit) {
        let (name, about) = {
            let mut state = unit.lock();
            if state.settings.name == LOCAL || std::mem::replace(&mut state.online_recorded, true) {
                return;
            }
            let report = &state.report;
            let about = json!({
                "version": report.version, "os": report.os, "arch": report.arch, "transport": state.transport(),
            });
            (state.settings.name.clone(), about)
        };
        self.record_event("node_online", unit, &name, about);
    }

    /// Calls no longer reach the node.
    pub(super) fn offline(&self, unit: &Unit, why: &str) {
        let name = {
            let mut state = unit.lock();
            if !std::mem::replace(&mut state.online_recorded, false) {
                return;
            }
            state.settings.name.clone()
        };
        self.record_event("node_offline", unit, &name, json!({ "reason": why }));
    }

    fn record_event(&self, kind: &str, unit: &Unit, name: &str, mut payload: Value) {
        tracing::info!(node = %unit.id, name, kind, "the state of a node changed");
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
            tracing::warn!(
                kind,
                name,
                "dropped an event of a node: too many events are waiting to be written"
            );
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
            let created =
                store.write(move |conn| Box::pin(conn.ensure_session(OWNER, KEY, None, now))).await?;
            *session.insert(created)
        }
    };
    store.append(Records { audit: Vec::new(), events: vec![(id, event)] }).await
}
