//! The records of a call: two audit entries and its session events, redacted and bounded.

use std::borrow::Cow;
use std::fmt::Write as _;

use plexus_auth::Principal;
use plexus_kit::Clock;
use plexus_kit::clock::from_millis;
use plexus_proto::api::AuditPhase;
use plexus_proto::{CallId, ErrorCode, EventKind, NewEvent, NodeId, SessionId, Timestamp, TokenId};
use plexus_store::{NewAudit, NodeCallRecord, Records, Ticket};
use serde::Serialize;
use serde_json::{Value, json};

use super::Via;
use super::prepare::PreparedCall;
use crate::nodes::NodeEntry;
use crate::{CallError, RawJson, ToolOutput, redact};

/// How far the clock of a caller may be ahead, in milliseconds.
const MAX_CLOCK_SKEW_MS: i64 = 300_000;
/// Longest arguments or result in an audit entry, in bytes.
const AUDIT_DETAIL: usize = 8 * 1024;
/// Longest arguments, and longest result, in an event, in bytes.
const EVENT_DETAIL: usize = 32 * 1024;

/// Everything about a call that is known before its tool is resolved.
#[derive(Clone)]
pub(super) struct CallOrigin {
    call_id: CallId,
    token_id: TokenId,
    subject: String,
    session_id: SessionId,
    /// As written to the audit log.
    via: Cow<'static, str>,
    /// The time of the original request, if the call was queued on its way.
    occurred_at: Option<Timestamp>,
    /// How long it was queued, in milliseconds.
    waited_ms: Option<i64>,
    clock: Clock,
}

/// The records of a call whose tool is resolved.
#[derive(Clone)]
pub(super) struct CallRecord {
    origin: CallOrigin,
    /// The node that runs the call, and its name if known.
    node: Option<(NodeId, Option<String>)>,
    tool: String,
    /// Redacted JSON text, rendered once for up to four records.
    arguments: String,
    /// The fields that are excluded from records.
    unrecorded: &'static [&'static str],
    /// The write of the start records.
    start: Option<Ticket>,
}

impl CallRecord {
    pub(super) fn tool(&self) -> &str {
        &self.tool
    }

    pub(super) fn call_id(&self) -> CallId {
        self.origin.call_id
    }

    pub(super) fn via(&self) -> &str {
        &self.origin.via
    }

    /// The record of a call whose start was recorded by another hub process.
    pub(super) fn of_row(call: &NodeCallRecord, node: Option<String>, clock: Clock) -> Self {
        let origin = CallOrigin {
            call_id: call.call_id,
            token_id: call.token_id,
            subject: call.subject.clone(),
            session_id: call.session_id,
            via: call.via.clone().into(),
            occurred_at: None,
            waited_ms: None,
            clock,
        };
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        Self { node: Some((call.node_id, node)), ..origin.of(&call.tool, &arguments, &[]) }
    }

    /// The call passed all checks and is about to run.
    pub(super) fn started(&self) -> Records {
        Records {
            audit: vec![self.audit_started()],
            events: vec![self.event(EventKind::ToolStarted, self.payload(None))],
        }
    }

    /// The same record after the start records were submitted.
    pub(super) fn after(self, start: Ticket) -> Self {
        Self { start: Some(start), ..self }
    }

    /// The records of the end of a call, to be [completed](Self::complete) when they are written.
    pub(super) fn ended(&self, result: Result<&ToolOutput, &CallError>) -> Records {
        let (detail, outcome) = (detail(result, self.unrecorded), outcome(result));
        Records {
            audit: vec![self.audit_finished(outcome, &detail)],
            events: vec![self.event(EventKind::ToolCall, self.payload(Some((&detail, outcome == "ok"))))],
        }
    }

    /// Prepends the records of the start if their write was lost.
    pub(super) fn complete(&self, ended: Records) -> Records {
        if !self.start.as_ref().is_some_and(Ticket::is_lost) {
            return ended;
        }
        let mut records = self.started();
        records.audit.extend(ended.audit);
        records.events.extend(ended.events);
        records
    }

    /// The call was refused before it ran: both audit entries at once.
    pub(super) fn refused(&self, result: Result<&ToolOutput, &CallError>) -> Records {
        let detail = detail(result, self.unrecorded);
        Records {
            audit: vec![self.audit_started(), self.audit_finished(outcome(result), &detail)],
            events: vec![self.event(EventKind::ToolCall, self.payload(Some((&detail, false))))],
        }
    }

    /// The call returned the stored result of an earlier one and did not run.
    pub(super) fn replayed(&self, first: CallId) -> Records {
        let detail = json!({ "replay_of": first }).to_string();
        Records { audit: vec![self.audit_started(), self.audit_finished("ok", &detail)], events: vec![] }
    }

    /// Like [`replayed`](Self::replayed), for a call whose start was recorded before another hub committed its key.
    pub(super) fn replayed_after_start(&self, first: CallId) -> Records {
        let detail = json!({ "replay_of": first }).to_string();
        let event = self.event(EventKind::ToolCall, self.payload(Some((&detail, true))));
        self.complete(Records { audit: vec![self.audit_finished("ok", &detail)], events: vec![event] })
    }

    fn audit_started(&self) -> NewAudit {
        self.audit(AuditPhase::Started, "", &self.arguments)
    }

    fn audit_finished(&self, outcome: &'static str, detail: &str) -> NewAudit {
        self.audit(AuditPhase::Finished, outcome, detail)
    }

    fn audit(&self, phase: AuditPhase, outcome: &'static str, detail: &str) -> NewAudit {
        NewAudit {
            at: self.origin.clock.now(),
            phase,
            call_id: Some(self.origin.call_id),
            token_id: Some(self.origin.token_id),
            actor: self.origin.subject.clone(),
            session_id: Some(self.origin.session_id),
            tool: self.tool.clone(),
            via: self.origin.via.clone(),
            outcome: outcome.into(),
            detail: redact::bounded(detail, AUDIT_DETAIL).into_owned(),
        }
    }

    /// The payload of an event; `end` is the result of the call and whether it succeeded.
    fn payload(&self, end: Option<(&str, bool)>) -> String {
        let arguments = redact::bounded(&self.arguments, EVENT_DETAIL);
        let end = end.map(|(result, success)| (redact::bounded(result, EVENT_DETAIL), success));
        let length =
            arguments.len() + end.as_ref().map_or(0, |(result, _)| result.len()) + self.tool.len() + 120;
        let mut payload = String::with_capacity(length);
        let (call_id, tool) = (self.origin.call_id, Value::from(self.tool.as_str()));
        // The parts are JSON already. Writing to a string cannot fail.
        let _ = write!(payload, r#"{{"args":{arguments},"call_id":"{call_id}""#);
        if let Some((id, name)) = &self.node {
            if let Some(name) = name {
                let _ = write!(payload, r#","node":{}"#, Value::from(name.as_str()));
            }
            let _ = write!(payload, r#","node_id":"{id}""#);
        }
        if let Some(at) = self.origin.occurred_at {
            let _ = write!(payload, r#","occurred_at":"{at}""#);
        }
        if let Some((result, success)) = end {
            let _ = write!(payload, r#","result":{result},"success":{success}"#);
        }
        let _ = write!(payload, r#","tool":{tool}"#);
        if let Some(waited) = self.origin.waited_ms {
            let _ = write!(payload, r#","waited_ms":{waited}"#);
        }
        payload.push('}');
        payload
    }

    fn event(&self, kind: EventKind, payload: String) -> (SessionId, NewEvent) {
        let event = NewEvent {
            at: self.origin.clock.now(),
            kind,
            actor: self.origin.subject.clone(),
            payload,
            external_id: None,
        };
        (self.origin.session_id, event)
    }
}

impl CallOrigin {
    pub(super) fn new(
        call_id: CallId,
        principal: &Principal,
        session_id: SessionId,
        via: Via,
        clock: Clock,
    ) -> Self {
        let (token_id, subject) = (principal.token_id(), principal.subject().to_owned());
        let via = via.as_str().into();
        Self { call_id, token_id, subject, session_id, via, occurred_at: None, waited_ms: None, clock }
    }

    /// Sets the time of the original request. A time beyond the allowed clock skew is replaced by the current time.
    pub(super) fn occurred(self, at: Option<Timestamp>) -> Self {
        let now = self.clock.now();
        let plausible = |at: Timestamp| match at.as_millisecond() - now.as_millisecond() > MAX_CLOCK_SKEW_MS {
            true => now,
            false => from_millis(at.as_millisecond()),
        };
        let occurred_at = at.map(plausible);
        let waited_ms = occurred_at.map(|at| (now.as_millisecond() - at.as_millisecond()).max(0));
        Self { occurred_at, waited_ms, ..self }
    }

    /// The record of a call on this node. If callers can select the node, the recorded arguments name the selected one,
    /// however it was selected, so the record always shows where a command ran.
    pub(super) fn on(self, node: &NodeEntry, prepared: &PreparedCall) -> CallRecord {
        let (tool, arguments) = (&prepared.tool, &prepared.arguments);
        let (name, unrecorded) = (&tool.spec().name, tool.spec().handling.unrecorded);
        let record = match tool.is_routed() {
            true => {
                let mut named = redact::without(arguments, unrecorded).into_owned();
                named["node"] = node.name.as_str().into();
                self.of(name, &named, unrecorded)
            }
            false => self.of(name, arguments, unrecorded),
        };
        CallRecord { node: Some((node.id, Some(node.name.clone()))), ..record }
    }

    /// The record of this call with its resolved tool, without the `unrecorded` fields.
    pub(super) fn of(self, tool: &str, arguments: &Value, unrecorded: &'static [&'static str]) -> CallRecord {
        let tool = redact::text(tool).unwrap_or_else(|| tool.to_owned());
        let arguments = redact::json(&*redact::without(arguments, unrecorded));
        CallRecord { origin: self, tool, arguments, node: None, unrecorded, start: None }
    }
}

fn outcome(result: Result<&ToolOutput, &CallError>) -> &'static str {
    match result {
        Ok(output) if output.is_error() => ErrorCode::ToolFailed.as_str(),
        Ok(_) => "ok",
        Err(error) => error.code.as_str(),
    }
}

/// The result as redacted JSON text. Results of other servers are parsed only if something has to be redacted.
fn detail(result: Result<&ToolOutput, &CallError>, unrecorded: &[&str]) -> String {
    match result {
        Ok(ToolOutput::Own { text, structured }) => {
            let structured = structured.as_ref().map(|structured| redact::without(structured, unrecorded));
            redact::json(&OwnResult { structured: structured.as_deref(), text })
        }
        Ok(ToolOutput::Foreign(foreign)) => {
            let content = redact::json_text(foreign.content.as_str());
            let structured = redact::json_text(foreign.structured.as_ref().map_or("null", RawJson::as_str));
            format!(r#"{{"content":{content},"structured":{structured}}}"#)
        }
        Ok(ToolOutput::Passed(result)) => redact::json_text(result.as_str()).into_owned(),
        Err(error) => redact::json(&Failure { code: error.code, message: &error.message }),
    }
}

#[derive(Serialize)]
struct OwnResult<'r> {
    structured: Option<&'r Value>,
    text: &'r str,
}

#[derive(Serialize)]
struct Failure<'r> {
    code: ErrorCode,
    message: &'r str,
}
