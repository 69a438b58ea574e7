//! What became of a run, told to the session in which its calls are.
//!
//! Events wait in the record of the run until the hub has them, with the time at which they happened and a name of their
//! own, under which the hub keeps each of them once.

use plexus_kit::Secret;
use plexus_proto::api::{AppendEvent, AppendEventsParams, CreateSessionParams, MAX_EVENTS, Page, Session};
use plexus_proto::{ErrorCode, SessionId};
use plexus_proxy::runner::{AgentExit, AgentKind, RunEvent, RunRecord};
use serde_json::{Map, json};

use super::maker::{Maker, is};
use crate::client::Hub;

/// The client of the session that a run has which nobody could place.
const UNPLACED: &str = "run";

/// Tells the hub what it has not heard. False: the session is not known yet. `last`: then it is another one.
pub(crate) async fn tell(
    maker: &Maker,
    token: Option<&Secret>,
    record: &mut RunRecord,
    last: bool,
) -> anyhow::Result<bool> {
    let (Some(name), true) = (record.token_name.clone(), record.reported < record.events.len()) else {
        return Ok(true);
    };
    if let Some(token) = token {
        match tell_as(&maker.hub_of(token)?, record, last).await {
            // It has expired, or was revoked.
            Err(error) if is(&error, ErrorCode::Unauthenticated) => {}
            told => return told,
        }
    }
    // The session belongs to the name of the run's token, so somebody of that name has to tell.
    let helper = maker.helper(&name).await?;
    let told = tell_as(&maker.hub_of(&helper.token)?, record, last).await;
    maker.revoke(helper.jti).await?;
    told
}

async fn tell_as(hub: &Hub, record: &mut RunRecord, last: bool) -> anyhow::Result<bool> {
    let Some(session) = session(hub, record, last).await? else { return Ok(false) };
    let waiting: Vec<(usize, &RunEvent)> = record.events.iter().enumerate().skip(record.reported).collect();
    for events in waiting.chunks(MAX_EVENTS) {
        let events = events.iter().map(|(number, event)| appended(record, *number, event)).collect();
        let params = AppendEventsParams { expected_seq: None, events };
        hub.post(&["sessions", &session.to_string(), "events"], &params, &[]).await?;
    }
    record.reported = record.events.len();
    Ok(true)
}

/// The session of the run, opened where its conversation is known, else found by what the agent told the hub.
async fn session(hub: &Hub, record: &mut RunRecord, last: bool) -> anyhow::Result<Option<SessionId>> {
    if let (Some(client), Some(conversation)) = (&record.client, &record.conversation) {
        return open(hub, client, conversation).await.map(Some);
    }
    if let Some(session) = found(hub, record).await? {
        record.client = session.client;
        return Ok(Some(session.id));
    }
    match last {
        true => open(hub, UNPLACED, &record.id).await.map(Some),
        false => Ok(None),
    }
}

async fn open(hub: &Hub, client: &str, conversation: &str) -> anyhow::Result<SessionId> {
    let (client, conversation) = (Some(client.to_owned()), Some(conversation.to_owned()));
    let params = CreateSessionParams { name: None, client, conversation };
    let session: Session = hub.post(&["sessions"], &params, &[]).await?.decode()?;
    Ok(session.id)
}

/// The one session that the agent can have made: of the name that we gave it, or the only one that is new.
async fn found(hub: &Hub, record: &RunRecord) -> anyhow::Result<Option<Session>> {
    let codex = record.agent == AgentKind::Codex;
    if !codex && record.conversation.is_none() {
        return Ok(None);
    }
    let query = [
        ("updated_after", Some(record.started_at.to_string())),
        ("key", codex.then(|| "codex:".to_owned())),
        ("limit", Some("200".to_owned())),
    ];
    let page: Page<Session> = hub.get(&["sessions"], &query).await?.decode()?;
    let is_own = |session: &Session| match &record.conversation {
        Some(named) => session.key.strip_suffix(named.as_str()).is_some_and(|rest| rest.ends_with(':')),
        None => session.created_at >= record.started_at,
    };
    let mut own = page.items.into_iter().filter(is_own);
    Ok(own.next().filter(|_| own.next().is_none()))
}

fn appended(record: &RunRecord, number: usize, event: &RunEvent) -> AppendEvent {
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
