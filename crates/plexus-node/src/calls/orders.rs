//! What a new link brings: the hub says of each call that the node holds what is to become of it.

use std::sync::Arc;

use plexus_proto::node::{CallOrder, CancelReason, Order};

use super::{Calls, State, Table};
use crate::outbox::Outbox;

impl Calls {
    /// A link is up: carries out the hub's orders, and has the results sent that it wants. A call that it did not speak of
    /// is kept: nothing is lost by that.
    pub(crate) fn attach(self: &Arc<Self>, outbox: Arc<Outbox>, orders: &[CallOrder]) {
        for CallOrder { call_id, order } in orders {
            match order {
                Order::Keep => {}
                Order::Forget => self.give_up(*call_id),
                Order::Cancel => {
                    self.cancel(*call_id, CancelReason::Caller);
                    self.give_up(*call_id);
                }
            }
        }
        let mut table = self.table();
        for (call_id, entry) in &table.calls {
            if matches!(entry.state, State::Finished { .. }) {
                outbox.result(*call_id);
            }
        }
        table.outbox = Some(outbox);
        table.greeting = false;
    }

    /// The link is no more. What is not kept is gone with it, once it has ended.
    pub(crate) fn detach(&self, outbox: &Arc<Outbox>) {
        let mut table = self.table();
        if !table.outbox.as_ref().is_some_and(|current| Arc::ptr_eq(current, outbox)) {
            return;
        }
        table.outbox = None;
        table.put_aside();
    }

    /// The hub that was told which calls there are has not answered.
    pub(crate) fn not_welcomed(&self) {
        let mut table = self.table();
        table.greeting = false;
        table.put_aside();
    }

    /// Nobody wants the result: forgotten now, or when the call has ended.
    fn give_up(self: &Arc<Self>, call_id: plexus_proto::CallId) {
        let running = {
            let mut table = self.table();
            match table.calls.get_mut(&call_id) {
                None => return,
                Some(entry) => {
                    entry.unwanted = true;
                    matches!(entry.state, State::Running(_))
                }
            }
        };
        if !running {
            self.confirmed(call_id);
        }
    }
}

impl Table {
    /// Without a link: what is not kept and has ended is gone, and what is on disk is read from there when it is wanted.
    fn put_aside(&mut self) {
        let Self { calls, unsent, .. } = self;
        calls.retain(|_, entry| {
            let State::Finished { outcome, .. } = &mut entry.state else { return true };
            if outcome.as_ref().is_some_and(|outcome| !outcome.only || !entry.keep) {
                *unsent -= outcome.take().map_or(0, |outcome| outcome.bytes);
            }
            entry.keep
        });
    }
}
