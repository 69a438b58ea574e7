//! The calls on the node's disk.

use plexus_kit::Clock;
use plexus_proto::CallId;
use plexus_proto::node::{Call, CallOutcome, HeldState};
use plexus_store::{Store, StoreError};

use super::stop::interrupted;

#[derive(Debug)]
pub(super) struct HeldCalls {
    store: Store,
    clock: Clock,
}

impl HeldCalls {
    pub(super) fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock }
    }

    /// Calls left by an earlier process, and whether each was interrupted. Marks those that were running as
    /// interrupted.
    pub(super) async fn recover(&self) -> Result<Vec<(CallId, bool)>, StoreError> {
        let end = text(&CallOutcome::Failed(interrupted()));
        let recovered = self
            .store
            .write_through(move |conn| {
                Box::pin(async move {
                    let interrupted = conn.interrupt_held_calls(&end).await?;
                    if interrupted > 0 {
                        tracing::warn!(calls = interrupted, "calls were running when the node stopped last");
                    }
                    conn.held_calls().await
                })
            })
            .await?;
        Ok(recovered.into_iter().map(|(id, state)| (id, state == HeldState::Interrupted)).collect())
    }

    /// Stores a call before its tool starts. Returns false if the call was accepted before and must not start again.
    pub(super) async fn hold(&self, call: &Call) -> Result<bool, StoreError> {
        let (call_id, now) = (call.call_id, self.clock.now());
        let (tool, subject) = (call.tool.clone(), call.caller.subject.clone());
        self.store
            .write_through(move |conn| {
                Box::pin(async move { conn.insert_held_call(call_id, &tool, &subject, now).await })
            })
            .await
    }

    /// Stores the outcome of a call, before it is sent.
    pub(super) async fn finish(&self, call_id: CallId, outcome: &CallOutcome) -> Result<(), StoreError> {
        let result = text(outcome);
        self.store
            .write_through(move |conn| {
                Box::pin(async move { conn.end_held_call(call_id, &result).await.map(drop) })
            })
            .await
    }

    /// The result of a call that has ended.
    pub(super) async fn result(&self, call_id: CallId) -> Result<Option<CallOutcome>, StoreError> {
        let held = self.store.read_committed().await?.held_call(call_id).await?;
        let result = held.and_then(|held| held.result);
        Ok(result.and_then(|result| match serde_json::from_str(&result) {
            Ok(outcome) => Some(outcome),
            Err(error) => {
                tracing::error!(%call_id, %error, "a stored result cannot be read");
                None
            }
        }))
    }

    pub(super) async fn forget(&self, call_id: CallId) -> Result<(), StoreError> {
        self.store
            .write(move |conn| Box::pin(async move { conn.delete_held_call(call_id).await.map(drop) }))
            .await
    }
}

/// The stored form.
fn text(outcome: &CallOutcome) -> String {
    // Fails only for a map whose keys are not strings; an outcome has none.
    serde_json::to_string(outcome).unwrap_or_default()
}
