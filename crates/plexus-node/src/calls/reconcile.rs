//! Reconciliation on a new link: the hub says for each call that the node holds what to do with it.

use std::sync::Arc;

use plexus_proto::node::{CallOrder, CancelReason, Order};

use super::{CallState, CallTable, Calls};
use crate::frame_queue::FrameQueue;

impl Calls {
    /// Uses a new link: carries out the hub's orders and queues the results. Calls without an order are kept, so
    /// nothing is lost.
    pub(crate) fn attach(self: &Arc<Self>, frames: Arc<FrameQueue>, orders: &[CallOrder]) {
        for CallOrder { call_id, order } in orders {
            match order {
                Order::Keep => {}
                Order::Forget => self.discard(*call_id),
                Order::Cancel => {
                    self.cancel(*call_id, CancelReason::Caller);
                    self.discard(*call_id);
                }
            }
        }
        let mut table = self.table();
        for (call_id, entry) in &table.calls {
            if matches!(entry.state, CallState::Finished { .. }) {
                frames.result(*call_id);
            }
        }
        table.frames = Some(frames);
        table.reconciling = false;
    }

    /// Called when the link has ended. Calls that are not kept are dropped, running ones when they end.
    pub(crate) fn detach(&self, frames: &Arc<FrameQueue>) {
        let mut table = self.table();
        if !table.frames.as_ref().is_some_and(|current| Arc::ptr_eq(current, frames)) {
            return;
        }
        table.frames = None;
        table.drop_unsent_results();
    }

    /// Called when the hub did not answer `hello` with `welcome`.
    pub(crate) fn handshake_failed(&self) {
        let mut table = self.table();
        table.reconciling = false;
        table.drop_unsent_results();
    }

    /// Deletes a call whose result the hub does not want, now or when it ends.
    fn discard(self: &Arc<Self>, call_id: plexus_proto::CallId) {
        let running = {
            let mut table = self.table();
            match table.calls.get_mut(&call_id) {
                None => return,
                Some(entry) => {
                    entry.discard_result = true;
                    matches!(entry.state, CallState::Running(_))
                }
            }
        };
        if !running {
            self.confirmed(call_id);
        }
    }
}

impl CallTable {
    /// Without a link, ended calls that are not kept are dropped, and results on disk are dropped from memory.
    fn drop_unsent_results(&mut self) {
        let Self { calls, unsent, .. } = self;
        calls.retain(|_, entry| {
            let CallState::Finished { outcome, .. } = &mut entry.state else { return true };
            if outcome.as_ref().is_some_and(|outcome| !outcome.memory_only || !entry.keep) {
                *unsent -= outcome.take().map_or(0, |outcome| outcome.bytes);
            }
            entry.keep
        });
    }
}
