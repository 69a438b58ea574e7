//! What a rule has approved, in the audit: nobody asked for it, and it is to be found afterwards all the same.

use plexus_kit::Clock;
use plexus_proto::CallId;
use plexus_proto::api::AuditPhase;
use plexus_store::{NewAudit, PinRecord, PinState, Records};
use serde_json::json;

use crate::config::ServerConfig;

/// What an approval is called there, whoever gives it.
pub const APPROVE: &str = "upstream_approve";
/// Tools that are named; of the rest their number is told.
const NAMED: usize = 200;

/// The approvals among these decisions, as one operation of the rule that made them.
pub(super) fn of(config: &ServerConfig, decisions: &[PinRecord], clock: &Clock) -> Records {
    let approved: Vec<&PinRecord> = decisions.iter().filter(|pin| pin.state == PinState::Approved).collect();
    let Some(first) = approved.first() else { return Records::default() };
    let tools =
        approved.iter().take(NAMED).map(|pin| json!({ "name": super::visible(&pin.tool), "hash": pin.hash }));
    let mut detail = json!({ "name": config.name, "tools": tools.collect::<Vec<_>>() });
    if approved.len() > NAMED {
        detail["more"] = json!(approved.len() - NAMED);
    }
    let started = NewAudit {
        at: clock.now(),
        phase: AuditPhase::Started,
        call_id: Some(CallId::new()),
        token_id: None,
        actor: format!("rule:{}", first.decided_by),
        session_id: None,
        tool: APPROVE.to_owned(),
        via: "hub".into(),
        outcome: "".into(),
        detail: detail.to_string(),
    };
    let finished = NewAudit { phase: AuditPhase::Finished, outcome: "ok".into(), ..started.clone() };
    Records { audit: vec![started, finished], events: vec![] }
}
