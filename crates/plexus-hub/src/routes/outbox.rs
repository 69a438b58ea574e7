//! `/api/v1/outbox`.
//!
//! A local proxy reports here the writes that it could not deliver, so that they are visible in the session of its
//! agent and not only on that machine.

use aws_lc_rs::digest;
use axum::Json;
use axum::extract::Request;
use plexus_kit::hex;
use plexus_proto::api::{DeadLetter, MAX_DEAD_LETTERS, TellLettersParams, TellLettersResponse};
use plexus_proto::{EventKind, NewEvent};
use plexus_store::{AppendError, Conn, Records};
use plexus_tools::{SessionKey, redacted};
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::tag;
use crate::App;
use crate::http::{ApiError, Caller};

/// Maximum length of the name of a client, a conversation or a tool, in characters.
const MAX_NAME: usize = 256;
/// Maximum length of an idempotency key, in bytes.
const MAX_KEY: usize = 255;
/// Maximum length of a reason, in characters.
const MAX_REASON: usize = 4_096;

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(report_dead_letters))
}

/// Report writes that could not be delivered
///
/// Each becomes a `notification` in the session that the write was for. It is added once, however often it is
/// reported.
#[utoipa::path(
    post,
    path = "/outbox/letters",
    operation_id = "tellDeadLetters",
    tag = tag::SESSIONS,
    request_body = TellLettersParams,
    responses((status = 200, description = "The session that they were added to.", body = TellLettersResponse))
)]
pub(super) async fn report_dead_letters(
    caller: Caller,
    request: Request,
) -> Result<Json<TellLettersResponse>, ApiError> {
    let TellLettersParams { client, session, letters } = caller.read_json(request, "dead letters").await?;
    check_name("client", &client)?;
    let session = session.filter(|session| !session.is_empty());
    if let Some(session) = &session {
        check_name("session", session)?;
    }
    if !(1..=MAX_DEAD_LETTERS).contains(&letters.len()) {
        return Err(ApiError::bad_request(format!("report 1 to {MAX_DEAD_LETTERS} letters at a time")));
    }
    let (owner, now) = (caller.principal.subject().to_owned(), caller.services.clock.now());
    // The key that a stateless client of this name would have.
    let key = match &session {
        Some(conversation) => SessionKey::of_conversation(&client, conversation),
        None => SessionKey::new("external", &[&client, caller.principal.name()], Some(&client)),
    };
    let events = letters.iter().enumerate().map(|(index, letter)| {
        let payload =
            payload(letter).map_err(|why| ApiError::bad_request(format!("letters[{index}]: {why}")))?;
        let hash = digest::digest(&digest::SHA256, letter.key.as_bytes());
        Ok(NewEvent {
            at: now,
            kind: EventKind::Other("notification".to_owned()),
            actor: owner.clone(),
            payload,
            external_id: Some(format!("dead-letter:{}", hex::encode(hash.as_ref()))),
        })
    });
    let events = events.collect::<Result<Vec<NewEvent>, ApiError>>()?;
    let append = caller.services.store.transact(
        move |conn: &mut Conn| {
            Box::pin(async move {
                let id = conn.ensure_session(&owner, key.as_str(), key.client(), now).await?;
                let before = conn.session(id).await?.map_or(0, |session| session.last_seq);
                let appended = conn.append_events(id, None, events).await?;
                Ok::<_, AppendError>((id, appended.last_seq - before))
            })
        },
        |_| Records::default(),
    );
    match append.await? {
        Ok((session_id, added)) => {
            let added = usize::try_from(added).unwrap_or(0);
            caller.services.store.hint_events();
            caller.services.dead_letters.inc_by(added as u64);
            Ok(Json(TellLettersResponse { session_id, added }))
        }
        Err(AppendError::Store(error)) => Err(error.into()),
        Err(error @ AppendError::Conflict { .. }) => Err(ApiError::internal("reporting letters", &error)),
    }
}

fn check_name(what: &str, name: &str) -> Result<(), ApiError> {
    if (1..=MAX_NAME).contains(&name.chars().count()) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("{what} must have 1 to {MAX_NAME} characters")))
}

/// The payload of the session's event, or the reason why the letter is invalid.
fn payload(letter: &DeadLetter) -> Result<String, String> {
    let DeadLetter { key, tool, reason, occurred_at, attempts } = letter;
    if !(1..=MAX_KEY).contains(&key.len()) {
        return Err(format!("a key must have 1 to {MAX_KEY} bytes"));
    }
    if !(1..=MAX_NAME).contains(&tool.chars().count()) {
        return Err(format!("the name of a tool must have 1 to {MAX_NAME} characters"));
    }
    if reason.chars().count() > MAX_REASON {
        return Err(format!("a reason must have at most {MAX_REASON} characters"));
    }
    let reason = redacted(reason).unwrap_or_else(|| reason.clone());
    let payload = json!({
        "source": "outbox",
        "event": "dead_letter",
        "text": format!("a write of {tool} could not be delivered: {reason}"),
        "key": key,
        "tool": tool,
        "reason": reason,
        "occurred_at": occurred_at,
        "attempts": attempts,
    });
    Ok(payload.to_string())
}
