//! Audit records of server changes: the caller, the request and the outcome.

use std::sync::Arc;

use plexus_auth::{Principal, Scope};
use plexus_proto::CallId;
use plexus_proto::api::AuditPhase;
use plexus_store::{NewAudit, Records};
use plexus_upstream::config::outline;
use serde_json::{Map, Value, json};

use crate::http::{ApiError, Caller};
use crate::services::Services;

/// Performs a change for an admin, runs it to completion and records it.
///
/// Changes to files cannot share a transaction with their record: one entry is committed before the change and one
/// after it, and a crash in between shows as an operation that never finished. The work returns the detail for the
/// record and its result. Non-admins are refused here, before anything is looked up, and the refusal is recorded
/// too.
pub(in crate::routes) async fn recorded<T, F>(
    caller: Caller,
    what: &'static str,
    audit_detail: Value,
    work: impl FnOnce(Arc<Services>) -> F + Send + 'static,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: Future<Output = Result<(Value, T), ApiError>> + Send + 'static,
{
    let Caller { services, principal } = caller;
    let task_services = services.clone();
    services
        .run_to_completion(what, async move {
            let entry =
                Entry { services: &task_services, principal: &principal, what, call_id: CallId::new() };
            entry.write(AuditPhase::Started, "", &audit_detail).await?;
            let result = match principal.allows(Scope::ADMIN) {
                true => work(task_services.clone()).await,
                false => Err(ApiError::lacks(Scope::ADMIN)),
            };
            let (outcome, detail) = match &result {
                Ok((done, _)) => ("ok", done.clone()),
                Err(refused) => {
                    (refused.code.as_str(), json!({ "asked": audit_detail, "error": refused.message }))
                }
            };
            tracing::info!(by = principal.subject(), outcome, %detail, "{what}");
            entry.write(AuditPhase::Finished, outcome, &detail).await?;
            result.map(|(_, value)| value)
        })
        .await?
}

/// The recorded detail for a server document given in the request, added to the other known facts.
pub(super) fn recorded_detail(facts: Value, document: &Map<String, Value>) -> Value {
    let mut detail = outline(document);
    if let Value::Object(facts) = facts {
        detail.extend(facts);
    }
    Value::Object(detail)
}

struct Entry<'a> {
    services: &'a Services,
    principal: &'a Principal,
    what: &'static str,
    call_id: CallId,
}

impl Entry<'_> {
    async fn write(&self, phase: AuditPhase, outcome: &'static str, detail: &Value) -> Result<(), ApiError> {
        let entry = NewAudit {
            at: self.services.clock.now(),
            phase,
            call_id: Some(self.call_id),
            token_id: Some(self.principal.token_id()),
            actor: self.principal.subject().to_owned(),
            session_id: None,
            tool: self.what.to_owned(),
            via: "rest".into(),
            outcome: outcome.into(),
            detail: detail.to_string(),
        };
        Ok(self.services.store.append(Records { audit: vec![entry], events: vec![] }).await?)
    }
}
