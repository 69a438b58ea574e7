//! Audit records of approvals by a rule. Nobody requested these approvals, but they must be traceable
//! afterwards.

use plexus_kit::Clock;
use plexus_proto::CallId;
use plexus_proto::api::AuditPhase;
use plexus_store::{NewAudit, PinRecord, PinState, Records};
use serde_json::json;

use crate::config::ServerConfig;

/// The name of an approval in the audit, whether by a person or by a rule.
pub const APPROVE: &str = "upstream_approve";
/// Tools that are listed by name; of further ones only the number is recorded.
const MAX_NAMED: usize = 200;

/// The approvals among these decisions, as one operation of the rule that made them.
pub(super) fn of(config: &ServerConfig, decisions: &[PinRecord], clock: &Clock) -> Records {
    let approved: Vec<&PinRecord> = decisions.iter().filter(|pin| pin.state == PinState::Approved).collect();
    let Some(first) = approved.first() else { return Records::default() };
    let tools = approved
        .iter()
        .take(MAX_NAMED)
        .map(|pin| json!({ "name": super::visible(&pin.tool), "hash": pin.hash }));
    let mut detail = json!({ "name": config.name, "tools": tools.collect::<Vec<_>>() });
    if approved.len() > MAX_NAMED {
        detail["more"] = json!(approved.len() - MAX_NAMED);
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
