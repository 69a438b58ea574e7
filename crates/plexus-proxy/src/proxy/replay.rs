//! Sends what was kept, as soon as the hub is there: each write as a call like any other, in the order of its session.
//!
//! A write that is sent twice is done once: the hub knows its key. So what matters here is that none is forgotten and none
//! overtakes another, and that one which can never be delivered does not hold up those behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::Method;
use http::header::{HeaderValue, RETRY_AFTER};
use plexus_kit::backoff::Jitter;
use plexus_mcp::relay::{StatelessRequest, headers};
use plexus_store::outbox::{self, Answer, Claimed, Outbox, OutboxError, Verdict, judge};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::hub::{Failure, Reach, told};
use super::{Shared, dead_letters};

/// Sessions whose writes are sent at the same time.
const LANES: usize = 4;
/// For as long a claim is ours alone. It is held for as long as sending takes; what a proxy held that was killed waits this long.
const LEASE: Duration = Duration::from_secs(6);
/// Another process that shares the outbox wakes nobody here.
const LOOK: Duration = Duration::from_secs(5);
/// Before an outbox that cannot be used is tried again.
const TROUBLE: Duration = Duration::from_secs(5);

pub(super) async fn run(proxy: Arc<Shared>) {
    let Some(outbox) = proxy.outbox.clone() else { return };
    let owner = format!("{}-{}", std::process::id(), uuid::Uuid::new_v4().simple());
    let mut reach = proxy.hub.reach();
    let mut was_away = true;
    loop {
        if reach.wait_for(|reach| *reach == Reach::There).await.is_err() {
            return;
        }
        let sent = async {
            if std::mem::take(&mut was_away) {
                outbox.hurry().await?;
            }
            drain(&proxy, &outbox, &owner).await?;
            // Some died of their age, and of others another proxy of this agent knows.
            proxy.look_for_letters().await;
            dead_letters::tell_hub(&proxy, &outbox).await?;
            outbox.next_due().await
        };
        let pause = match sent.await {
            Ok(None) => LOOK,
            Ok(Some(due)) => {
                let left = due.duration_since(proxy.options.clock.now()).as_millis().max(10);
                Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX)).min(LOOK)
            }
            Err(error) => {
                tracing::error!(%error, "the outbox cannot be used");
                TROUBLE
            }
        };
        was_away = *reach.borrow() != Reach::There;
        if was_away {
            continue;
        }
        tokio::select! {
            () = outbox.woken() => {}
            () = tokio::time::sleep(pause) => {}
            Ok(()) = reach.changed() => was_away = *reach.borrow() != Reach::There,
        }
    }
}

/// Sends all that can be sent now.
async fn drain(proxy: &Shared, outbox: &Outbox, owner: &str) -> Result<(), OutboxError> {
    let away = AtomicBool::new(false);
    let lane = || async {
        while !away.load(Ordering::Relaxed)
            && let Some(claimed) = outbox.claim(owner, LEASE).await?
        {
            if !deliver(proxy, outbox, &claimed).await? {
                away.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    join_all((0..LANES).map(|_| lane())).await.into_iter().collect()
}

/// Sends one write. False: the hub is away, and nothing else is worth a try.
async fn deliver(proxy: &Shared, outbox: &Outbox, claimed: &Claimed) -> Result<bool, OutboxError> {
    let mut renewed = false;
    let sent = async {
        loop {
            let (verdict, there) = send(proxy, claimed, renewed).await;
            if verdict != Verdict::RenewThenRetry {
                return (verdict, there);
            }
            renewed = true;
            proxy.hub.renew().await;
        }
    };
    let (verdict, there) = held(outbox, claimed, sent).await;
    let (key, tool) = (&claimed.key, &claimed.tool);
    let kept = match verdict {
        Verdict::Settled => {
            tracing::info!(%key, %tool, "a write that was kept was delivered");
            outbox.settle(claimed).await?
        }
        Verdict::Bury(reason) => {
            tracing::error!(%key, %tool, %reason, "a write that was kept cannot be delivered");
            let buried = outbox.bury(claimed, &reason).await?;
            proxy.letters.store(true, Ordering::Release);
            buried
        }
        Verdict::Retry(after) => {
            let pause = after.unwrap_or_else(|| outbox::pause(claimed.attempts, &Jitter::random()));
            let now = proxy.options.clock.now();
            let why = if there { "the hub asks to try again" } else { "the hub is away" };
            outbox.postpone(claimed, now.checked_add(pause).unwrap_or(now), why).await?
        }
        Verdict::RenewThenRetry => true,
    };
    if !kept {
        tracing::warn!(%key, "a write was taken over by another proxy while it was sent");
    }
    Ok(there)
}

/// Does something while nobody else may take the claim.
async fn held<T>(outbox: &Outbox, claimed: &Claimed, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(LEASE / 3) => {}
        }
        // Whose it is shows when what became of it is written down.
        if let Err(error) = outbox.renew_lease(claimed, LEASE).await {
            tracing::warn!(%error, key = claimed.key, "a write that is sent may be taken over");
        }
    }
}

/// What became of one attempt, and whether the hub is there.
async fn send(proxy: &Shared, claimed: &Claimed, renewed: bool) -> (Verdict, bool) {
    let now = proxy.options.clock.now();
    let Ok(params) = serde_json::from_str::<Map<String, Value>>(&claimed.params) else {
        return (Verdict::Bury("what was kept is no call".to_owned()), true);
    };
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let request = StatelessRequest {
        method: "tools/call",
        name: Some(&name),
        params,
        client: serde_json::from_str(&claimed.client).ok(),
        write: Some((&claimed.key, claimed.occurred_at)),
    };
    let (mut headers, body) = request.build();
    if let Ok(conversation) = HeaderValue::from_str(&claimed.session) {
        headers.insert(headers::CONVERSATION, conversation);
    }
    let body = Bytes::from(body);
    let asked = async {
        let reply = proxy.hub.mcp(&Method::POST, headers, &body).await?;
        let (status, after) = (reply.status(), reply.header(RETRY_AFTER.as_str()).cloned());
        if reply.is_stream() {
            // It takes its time, and its answer comes last.
            let mut reply = reply;
            let mut last = None;
            while let Some(told) = reply
                .next(proxy.options.timing.silence)
                .await
                .map_err(|error| proxy.hub.noted(error.into()))?
            {
                last = Some(told.json);
            }
            return Ok((status, after, last.unwrap_or_default()));
        }
        if !reply.is_json() {
            return Ok((status, after, told(reply).await.into()));
        }
        let body = reply.whole().await.map_err(|error| proxy.hub.noted(error.into()))?;
        Ok((status, after, body))
    };
    let patience = proxy.options.timing.write;
    let answered = tokio::time::timeout(patience, asked).await;
    match answered.unwrap_or_else(|_| Err(proxy.hub.noted(Failure::Late(patience)))) {
        Ok((status, after, body)) => {
            let there = !super::hub::is_away(status);
            let after = after.as_ref().and_then(|after| after.to_str().ok());
            (verdict(status.as_u16(), after, &body, renewed, now), there)
        }
        Err(Failure::Refused(why)) => {
            let status = Answer::Status { status: 401, retry_after: None, message: &why };
            (judge(status, true, now), false)
        }
        Err(Failure::Away { .. } | Failure::Late(_)) => (judge(Answer::None, renewed, now), false),
    }
}

fn verdict(
    status: u16,
    retry_after: Option<&str>,
    body: &[u8],
    renewed: bool,
    now: plexus_proto::Timestamp,
) -> Verdict {
    #[derive(Deserialize)]
    struct Spoken {
        result: Option<Value>,
        error: Option<Refusal>,
    }
    #[derive(Deserialize)]
    struct Refusal {
        code: i64,
        #[serde(default)]
        message: String,
        data: Option<Value>,
    }
    let spoken = serde_json::from_slice::<Spoken>(body).ok();
    let answer = match &spoken {
        Some(Spoken { result: Some(result), .. }) if status == 200 => Answer::Result(result),
        Some(Spoken { error: Some(error), .. }) if status == 200 => {
            Answer::Error { code: error.code, message: &error.message, data: error.data.as_ref() }
        }
        _ if status == 200 => Answer::None,
        Some(Spoken { error: Some(error), .. }) => {
            Answer::Status { status, retry_after, message: &error.message }
        }
        _ => Answer::Status { status, retry_after, message: std::str::from_utf8(body).unwrap_or_default() },
    };
    judge(answer, renewed, now)
}
