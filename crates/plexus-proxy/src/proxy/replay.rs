//! Sends queued writes when the hub is reachable: each as an ordinary call, in the order of its session.
//!
//! A write that is sent twice is executed once, because the hub knows its key. So this module ensures that no write
//! is lost or overtakes another of its session, and that one which can never be delivered becomes a dead letter and
//! blocks nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::Method;
use http::header::{HeaderValue, RETRY_AFTER};
use plexus_kit::backoff::Jitter;
use plexus_mcp::relay::{StatelessRequest, headers};
use plexus_store::outbox::{self, ClaimedWrite, Outbox, OutboxError, Verdict, WriteAnswer, judge};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::hub::{HubFailure, Reachability, api_error_message};
use super::{Shared, dead_letters};

/// Sessions whose writes are sent concurrently.
const CONCURRENT_DELIVERIES: usize = 4;
/// Duration of a claim, renewed while the write is sent. The writes of a killed proxy wait this long.
const LEASE: Duration = Duration::from_secs(6);
/// Polling interval, since other processes that share the outbox do not wake this one.
const POLL: Duration = Duration::from_secs(5);
/// Delay after an error of the outbox.
const ERROR_DELAY: Duration = Duration::from_secs(5);

pub(super) async fn run(proxy: Arc<Shared>) {
    let Some(outbox) = proxy.outbox.clone() else { return };
    let owner = format!("{}-{}", std::process::id(), uuid::Uuid::new_v4().simple());
    let mut reachability = proxy.hub.reachability();
    let mut was_away = true;
    loop {
        if reachability.wait_for(|reachability| *reachability == Reachability::Reachable).await.is_err() {
            return;
        }
        let sent = async {
            if std::mem::take(&mut was_away) {
                outbox.make_all_due().await?;
            }
            drain(&proxy, &outbox, &owner).await?;
            // Writes may have expired, or another proxy of this agent may have found dead letters.
            proxy.check_dead_letters().await;
            dead_letters::report_to_hub(&proxy, &outbox).await?;
            outbox.next_due().await
        };
        let pause = match sent.await {
            Ok(None) => POLL,
            Ok(Some(due)) => {
                let left = due.duration_since(proxy.options.clock.now()).as_millis().max(10);
                Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX)).min(POLL)
            }
            Err(error) => {
                tracing::error!(%error, "cannot use the outbox");
                ERROR_DELAY
            }
        };
        was_away = *reachability.borrow() != Reachability::Reachable;
        if was_away {
            continue;
        }
        tokio::select! {
            () = outbox.write_available() => {}
            () = tokio::time::sleep(pause) => {}
            Ok(()) = reachability.changed() => was_away = *reachability.borrow() != Reachability::Reachable,
        }
    }
}

/// Sends all writes that are due.
async fn drain(proxy: &Shared, outbox: &Outbox, owner: &str) -> Result<(), OutboxError> {
    let hub_lost = AtomicBool::new(false);
    let deliver_all = || async {
        while !hub_lost.load(Ordering::Relaxed)
            && let Some(claimed) = outbox.claim(owner, LEASE).await?
        {
            if !deliver(proxy, outbox, &claimed).await? {
                hub_lost.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    join_all((0..CONCURRENT_DELIVERIES).map(|_| deliver_all())).await.into_iter().collect()
}

/// Sends one write. Returns false if the hub is away, so that further attempts are useless.
async fn deliver(proxy: &Shared, outbox: &Outbox, claimed: &ClaimedWrite) -> Result<bool, OutboxError> {
    let mut renewed = false;
    let sent = async {
        loop {
            let (verdict, reachable) = send(proxy, claimed, renewed).await;
            if verdict != Verdict::RenewThenRetry {
                return (verdict, reachable);
            }
            renewed = true;
            proxy.hub.renew().await;
        }
    };
    let (verdict, reachable) = with_lease(outbox, claimed, sent).await;
    let (key, tool) = (&claimed.key, &claimed.tool);
    let still_claimed = match verdict {
        Verdict::Settled => {
            tracing::info!(%key, %tool, "delivered a queued write");
            outbox.settle(claimed).await?
        }
        Verdict::DeadLetter(reason) => {
            tracing::error!(%key, %tool, %reason, "cannot deliver a queued write; it is now a dead letter");
            let stored = outbox.dead_letter(claimed, &reason).await?;
            proxy.has_unreported_dead_letters.store(true, Ordering::Release);
            stored
        }
        Verdict::Retry(after) => {
            let pause = after.unwrap_or_else(|| outbox::pause(claimed.attempts, &Jitter::random()));
            let now = proxy.options.clock.now();
            let why = if reachable { "the hub asked to retry" } else { "the hub is away" };
            outbox.postpone(claimed, now.checked_add(pause).unwrap_or(now), why).await?
        }
        Verdict::RenewThenRetry => true,
    };
    if !still_claimed {
        tracing::warn!(%key, "another proxy took over a write while it was being sent");
    }
    Ok(reachable)
}

/// Renews the lease while `work` runs.
async fn with_lease<T>(outbox: &Outbox, claimed: &ClaimedWrite, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(LEASE / 3) => {}
        }
        // Losing the claim is noticed when the outcome is stored.
        if let Err(error) = outbox.renew_lease(claimed, LEASE).await {
            tracing::warn!(%error, key = claimed.key, "cannot renew the lease of a write; another proxy may take it over");
        }
    }
}

/// The verdict of one attempt, and whether the hub is reachable.
async fn send(proxy: &Shared, claimed: &ClaimedWrite, renewed: bool) -> (Verdict, bool) {
    let now = proxy.options.clock.now();
    let Ok(params) = serde_json::from_str::<Map<String, Value>>(&claimed.params) else {
        return (Verdict::DeadLetter("the stored write is not a call".to_owned()), true);
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
    let request = async {
        let reply = proxy.hub.mcp(&Method::POST, headers, &body).await?;
        let (status, after) = (reply.status(), reply.header(RETRY_AFTER.as_str()).cloned());
        if reply.is_stream() {
            // The answer is the last message of the stream.
            let mut reply = reply;
            let mut last = None;
            while let Some(message) = reply
                .next(proxy.options.timing.silence)
                .await
                .map_err(|error| proxy.hub.record_failure(error.into()))?
            {
                last = Some(message.json);
            }
            return Ok((status, after, last.unwrap_or_default()));
        }
        let body = reply.bytes().await.map_err(|error| proxy.hub.record_failure(error.into()))?;
        Ok((status, after, body))
    };
    let time_limit = proxy.options.timing.write;
    let answered = tokio::time::timeout(time_limit, request).await;
    match answered.unwrap_or_else(|_| Err(proxy.hub.record_failure(HubFailure::TimedOut(time_limit)))) {
        Ok((status, after, body)) => {
            let reachable = !super::hub::is_away(status);
            let after = after.as_ref().and_then(|after| after.to_str().ok());
            (verdict(status.as_u16(), after, &body, renewed, now), reachable)
        }
        Err(HubFailure::Refused(why)) => {
            let status =
                WriteAnswer::Status { status: 401, is_from_hub: true, retry_after: None, message: &why };
            (judge(status, true, now), false)
        }
        Err(HubFailure::Away { .. } | HubFailure::TimedOut(_)) => {
            (judge(WriteAnswer::None, renewed, now), false)
        }
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
    struct RpcAnswer {
        result: Option<Value>,
        error: Option<RpcFailure>,
    }
    #[derive(Deserialize)]
    struct RpcFailure {
        code: i64,
        #[serde(default)]
        message: String,
        data: Option<Value>,
    }
    let rpc = serde_json::from_slice::<RpcAnswer>(body).ok();
    let api_error = api_error_message(body);
    let answer = match &rpc {
        Some(RpcAnswer { result: Some(result), .. }) if status == 200 => WriteAnswer::Result(result),
        Some(RpcAnswer { error: Some(error), .. }) if status == 200 => {
            WriteAnswer::Error { code: error.code, message: &error.message, data: error.data.as_ref() }
        }
        _ if status == 200 => WriteAnswer::None,
        Some(RpcAnswer { error: Some(error), .. }) => {
            WriteAnswer::Status { status, is_from_hub: true, retry_after, message: &error.message }
        }
        _ => WriteAnswer::Status {
            status,
            is_from_hub: api_error.is_some(),
            retry_after,
            message: api_error.as_deref().unwrap_or_default(),
        },
    };
    judge(answer, renewed, now)
}
