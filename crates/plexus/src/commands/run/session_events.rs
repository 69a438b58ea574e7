//! Reports the events of a run to the session that has the run's calls.
//!
//! Events stay in the record of the run until the hub has them. Each has its time and a unique id, by which the hub
//! discards duplicates.

use plexus_kit::Secret;
use plexus_proto::api::{AppendEvent, AppendEventsParams, CreateSessionParams, MAX_EVENTS, Page, Session};
use plexus_proto::{ErrorCode, SessionId};
use plexus_proxy::runner::{AgentExit, AgentKind, RunEvent, RunRecord};
use serde_json::{Map, json};

use super::token_issuer::{TokenIssuer, has_code};
use crate::client::Hub;

/// Client of the session of a run whose own session was not found.
const FALLBACK_CLIENT: &str = "run";

/// Reports new events. Returns false if the session is not known yet; if `is_final`, a session is created then.
pub(crate) async fn report(
    issuer: &TokenIssuer,
    token: Option<&Secret>,
    record: &mut RunRecord,
    is_final: bool,
) -> anyhow::Result<bool> {
    let (Some(name), true) = (record.token_name.clone(), record.reported < record.events.len()) else {
        return Ok(true);
    };
    if let Some(token) = token {
        match report_to(&issuer.hub_with(token)?, record, is_final).await {
            // The token has expired or was revoked.
            Err(error) if has_code(&error, ErrorCode::Unauthenticated) => {}
            result => return result,
        }
    }
    // The session belongs to the name of the run's token, so the report needs a token of that name.
    let token = issuer.create_reporting_token(&name).await?;
    let result = report_to(&issuer.hub_with(&token.secret)?, record, is_final).await;
    issuer.revoke(token.jti).await?;
    result
}

async fn report_to(hub: &Hub, record: &mut RunRecord, is_final: bool) -> anyhow::Result<bool> {
    let Some(session) = session(hub, record, is_final).await? else { return Ok(false) };
    let unreported: Vec<(usize, &RunEvent)> =
        record.events.iter().enumerate().skip(record.reported).collect();
    for events in unreported.chunks(MAX_EVENTS) {
        let events = events.iter().map(|(number, event)| append_event(record, *number, event)).collect();
        let params = AppendEventsParams { expected_seq: None, events };
        hub.post(&["sessions", &session.to_string(), "events"], &params, &[]).await?;
    }
    record.reported = record.events.len();
    Ok(true)
}

/// The session of the run: opened if its conversation is known, otherwise searched among the agent's sessions.
async fn session(hub: &Hub, record: &mut RunRecord, is_final: bool) -> anyhow::Result<Option<SessionId>> {
    if let (Some(client), Some(conversation)) = (&record.client, &record.conversation) {
        return open(hub, client, conversation).await.map(Some);
    }
    if let Some(session) = find_session(hub, record).await? {
        record.client = session.client;
        return Ok(Some(session.id));
    }
    match is_final {
        true => open(hub, FALLBACK_CLIENT, &record.id).await.map(Some),
        false => Ok(None),
    }
}

async fn open(hub: &Hub, client: &str, conversation: &str) -> anyhow::Result<SessionId> {
    let (client, conversation) = (Some(client.to_owned()), Some(conversation.to_owned()));
    let params = CreateSessionParams { name: None, client, conversation };
    let session: Session = hub.post(&["sessions"], &params, &[]).await?.decode()?;
    Ok(session.id)
}

/// The session that the agent made: the one with the name of the conversation, or the only one since the run started.
async fn find_session(hub: &Hub, record: &RunRecord) -> anyhow::Result<Option<Session>> {
    let is_codex = record.agent == AgentKind::Codex;
    if !is_codex && record.conversation.is_none() {
        return Ok(None);
    }
    let query = [
        ("updated_after", Some(record.started_at.to_string())),
        ("key", is_codex.then(|| "codex:".to_owned())),
        ("limit", Some("200".to_owned())),
    ];
    let page: Page<Session> = hub.get(&["sessions"], &query).await?.decode()?;
    let is_own = |session: &Session| match &record.conversation {
        Some(name) => session.key.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with(':')),
        None => session.created_at >= record.started_at,
    };
    let mut own = page.items.into_iter().filter(is_own);
    Ok(own.next().filter(|_| own.next().is_none()))
}

fn append_event(record: &RunRecord, number: usize, event: &RunEvent) -> AppendEvent {
    let mut payload = Map::new();
    payload.insert("source".to_owned(), json!("run"));
    payload.insert("run".to_owned(), json!(record.id));
    payload.insert("agent".to_owned(), json!(record.agent.as_str()));
    payload.insert("state".to_owned(), json!(event.state));
    match event.ending {
        Some(AgentExit::Code(code)) => drop(payload.insert("exit_code".to_owned(), json!(code))),
        Some(AgentExit::Signal(signal)) => drop(payload.insert("signal".to_owned(), json!(signal))),
        None => {}
    }
    AppendEvent {
        kind: "notification".to_owned(),
        payload,
        external_id: Some(format!("run-{}-{number}", record.id)),
        at: Some(event.at),
    }
}
