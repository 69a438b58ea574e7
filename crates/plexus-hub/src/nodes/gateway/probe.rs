//! Health checks: a call without effects takes the path of all calls, after each connect and periodically.

use std::sync::Arc;

use plexus_proto::node::{Call, CallOutcome, Caller};
use plexus_proto::{CallId, ErrorCode, SessionId};
use serde_json::value::RawValue;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use crate::nodes::HUB;
use crate::nodes::call::{OutgoingCall, Undelivered};
use crate::nodes::unit::Health;

/// A tool of every node that does nothing.
const PROBE: &str = "probe";

impl Connection {
    /// Probes for as long as the link lasts.
    pub(super) async fn keep_probing(&self) {
        let options = self.gateway.0.options.clone();
        loop {
            let well = match self.probe().await {
                Some(health) => self.record_health(health),
                None => true,
            };
            // An unwell machine is probed more often, so that its recovery is noticed soon.
            let heartbeats = if well { options.probe_every } else { 1 };
            sleep(options.heartbeat * heartbeats).await;
        }
    }

    /// `None` if the result is inconclusive.
    async fn probe(&self) -> Option<Health> {
        let options = &self.gateway.0.options;
        let call = Call {
            call_id: CallId::new(),
            tool: PROBE.to_owned(),
            arguments: RawValue::from_string("{}".to_owned()).ok()?,
            session_id: SessionId::new(),
            caller: Caller { subject: HUB.to_owned(), profile: None },
            deadline_ms: u64::try_from(options.probe.as_millis()).unwrap_or(u64::MAX),
            keep: false,
            idempotency_key: None,
            traceparent: None,
        };
        let call = OutgoingCall { call, queue: false, on_sent: None };
        let (nobody, never) = (Arc::new(|_| {}), CancellationToken::new());
        let ended = timeout(options.probe, self.gateway.call(self.unit.id, call, nobody, &never)).await;
        Some(match ended {
            Ok(Ok(CallOutcome::Failed(failure))) if failure.code != ErrorCode::Overloaded => {
                let why: String = failure.message.chars().take(200).collect();
                Health::Unwell(format!("a test call failed there: {why}"))
            }
            // Too many calls are running there, so calls work.
            Ok(Ok(_)) => Health::Well,
            Err(_) => Health::Unwell(format!("a test call did not finish within {:?}", options.probe)),
            Ok(Err(Undelivered::Draining | Undelivered::Full(_))) => return None,
            Ok(Err(_)) => return None,
        })
    }

    /// Records a changed health; returns whether the machine is well.
    fn record_health(&self, health: Health) -> bool {
        let Some(mut state) = self.unit.lock_if_current(self.epoch) else { return true };
        let well = health == Health::Well;
        let changed = state.health != health;
        state.health = health.clone();
        drop(state);
        if !changed {
            return well;
        }
        self.gateway.publish();
        match health {
            Health::Unwell(why) => {
                tracing::warn!(node = %self.unit.id, why, "calls to a node fail");
                self.gateway.0.metrics.unwell.inc();
                self.gateway.0.announcer.offline(&self.unit, &why);
            }
            Health::Well | Health::Untested => self.gateway.0.announcer.online(&self.unit),
        }
        well
    }
}
