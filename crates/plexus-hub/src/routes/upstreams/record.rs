//! Changes of servers in the audit: who asked for what, and what came of it.

use std::sync::Arc;

use plexus_auth::{Principal, Scope};
use plexus_proto::CallId;
use plexus_proto::api::AuditPhase;
use plexus_store::{NewAudit, Records};
use plexus_upstream::config::outline;
use serde_json::{Map, Value, json};

use crate::http::{ApiError, Caller};
use crate::services::Services;

/// Does for an admin what changes servers, to its end and with its record.
///
/// What changes files cannot share a transaction with its record: one half of that is committed before, the
/// other after, and a crash in between shows as an operation that never finished. The work gives what is to be
/// said of it there, and its result. Who is no admin is refused here, before anything is looked at, and that is on
/// record too.
pub(in crate::routes) async fn recorded<T, F>(
    caller: Caller,
    what: &'static str,
    asked: Value,
    work: impl FnOnce(Arc<Services>) -> F + Send + 'static,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: Future<Output = Result<(Value, T), ApiError>> + Send + 'static,
{
    let Caller { services, principal } = caller;
    let inside = services.clone();
    services
        .see_through(what, async move {
            let entry = Entry { services: &inside, by: &principal, what, call_id: CallId::new() };
            entry.write(AuditPhase::Started, "", &asked).await?;
            let result = match principal.allows(Scope::ADMIN) {
                true => work(inside.clone()).await,
                false => Err(ApiError::lacks(Scope::ADMIN)),
            };
            let (outcome, detail) = match &result {
                Ok((done, _)) => ("ok", done.clone()),
                Err(refused) => (refused.code.as_str(), json!({ "asked": asked, "error": refused.message })),
            };
            tracing::info!(by = principal.subject(), outcome, %detail, "{what}");
            entry.write(AuditPhase::Finished, outcome, &detail).await?;
            result.map(|(_, value)| value)
        })
        .await?
}

/// What the record says of a server that was given as this document, beside what else is known of it.
pub(super) fn told(known: Value, document: &Map<String, Value>) -> Value {
    let mut told = outline(document);
    if let Value::Object(known) = known {
        told.extend(known);
    }
    Value::Object(told)
}

struct Entry<'a> {
    services: &'a Services,
    by: &'a Principal,
    what: &'static str,
    call_id: CallId,
}

impl Entry<'_> {
    async fn write(&self, phase: AuditPhase, outcome: &'static str, detail: &Value) -> Result<(), ApiError> {
        let entry = NewAudit {
            at: self.services.clock.now(),
            phase,
            call_id: Some(self.call_id),
            token_id: Some(self.by.token_id()),
            actor: self.by.subject().to_owned(),
            session_id: None,
            tool: self.what.to_owned(),
            via: "rest".into(),
            outcome: outcome.into(),
            detail: detail.to_string(),
        };
        Ok(self.services.store.append(Records { audit: vec![entry], events: vec![] }).await?)
    }
}
