//! Calls that wait for their machine.

use std::sync::Arc;
use std::time::Duration;

use plexus_proto::{CallId, ErrorCode};
use plexus_store::NodeCallState;
use plexus_tools::{CallError, ToolContext, ToolOutput};
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use super::{TestNodes, node, row, rows, shell, start_call};
use crate::hub::{Hub, bounded, keyed};

fn queued(seconds: u64) -> Value {
    json!({ "action": "run", "command": "x", "node": "nas", "queue": true, "queue_seconds": seconds })
}

/// A machine that is away.
fn offline_node() -> plexus_tools::nodes::NodeEntry {
    plexus_tools::nodes::NodeEntry { online: false, ..node("nas", &[]) }
}

/// A tool that waits until the row of its call is no longer queued, as the hub does for a machine that comes.
fn waiting() -> plexus_tools::Tool {
    waiting_from(Arc::default())
}

/// The same, with a notification when it begins; the time in the queue has begun when the notification is seen.
fn waiting_from(begun: Arc<Notify>) -> plexus_tools::Tool {
    shell(move |context: ToolContext, _| {
        begun.notify_one();
        until_sent(context)
    })
}

async fn until_sent(context: ToolContext) -> Result<ToolOutput, CallError> {
    let cancel = context.cancel.clone();
    let comes = async {
        loop {
            let row = context.store.read().await.unwrap().node_call(context.call_id).await.unwrap();
            if row.is_some_and(|row| row.state == NodeCallState::Sent) {
                context.sent();
                return Ok(ToolOutput::new("ran", &()));
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(CallError::new(ErrorCode::Cancelled, "given up").before_it_ran()),
        ran = comes => ran,
    }
}

/// Lets more than the second pass for which the calls here are queued.
async fn let_a_queue_expire() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(1_100)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn queued_call_runs_when_its_node_connects() {
    bounded(async {
        let hub = Hub::with([waiting()]).await;
        let machines = TestNodes::of([offline_node()]);
        hub.dispatcher.set_nodes(machines.clone());
        let (_, reply) = start_call(&hub, keyed("shell", queued(600), "k"));
        let row = row(&hub).await;
        assert_eq!((row.state, row.store_id), (NodeCallState::Queued, None));
        let waits = row.queued_until.unwrap().duration_since(row.created_at);
        assert_eq!(waits.as_secs(), 600);
        assert!(row.deadline_at > row.queued_until.unwrap(), "its own time counts from when it is sent");
        let call_id = row.call_id;
        let sent = hub.store.write(move |conn| Box::pin(conn.send_node_call(call_id, Uuid::nil()))).await;
        assert!(sent.unwrap());
        assert_eq!(reply.await.unwrap().result.unwrap().text(), "ran");
        assert!(rows(&hub).await.is_empty());
        assert_eq!(machines.settled().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn queued_call_fails_when_its_node_does_not_connect_in_time() {
    bounded(async {
        let begun = Arc::new(Notify::new());
        let hub = Hub::with([waiting_from(begun.clone())]).await;
        let machines = TestNodes::of([offline_node()]);
        hub.dispatcher.set_nodes(machines.clone());
        let (_, reply) = start_call(&hub, keyed("shell", queued(1), "k"));
        begun.notified().await;
        let_a_queue_expire().await;
        let reply = reply.await.unwrap();
        let error = reply.result.unwrap_err();
        assert_eq!(error.code, ErrorCode::DeadlineExceeded);
        assert_eq!(error.message, "the node nas did not connect within the 1 s that the call was queued");
        assert!(error.hint.unwrap().starts_with("Nothing was run."));
        assert!(rows(&hub).await.is_empty());
        assert_eq!(machines.settled().len(), 1);
        let audited = hub.audited(reply.call_id).await.unwrap();
        assert_eq!(audited.outcome, "deadline_exceeded");
        // Its key is free: the same call can be made again.
        machines.change("nas", |nas| nas.online = true);
        let (_, again) = start_call(&hub, keyed("shell", queued(1), "k"));
        let call_id = row(&hub).await.call_id;
        hub.store.write(move |conn| Box::pin(conn.send_node_call(call_id, Uuid::nil()))).await.unwrap();
        let again = again.await.unwrap();
        assert_eq!((again.replayed, again.result.unwrap().text().as_ref()), (false, "ran"));
    })
    .await;
}

#[tokio::test]
async fn call_sent_just_before_queue_expiry_is_awaited() {
    bounded(async {
        let tool = shell(|context: ToolContext, _| async move {
            // Sent, but nobody here has heard of it before the time to wait is over.
            let call_id = context.call_id;
            let sent =
                context.store.write(move |conn| Box::pin(conn.send_node_call(call_id, Uuid::nil()))).await;
            assert!(sent.unwrap());
            let_a_queue_expire().await;
            // The writer is first in, first out, so the attempt to expire the call precedes the later of these.
            for _ in 0..5 {
                context
                    .store
                    .write(|conn| Box::pin(conn.send_node_call(CallId::new(), Uuid::nil())))
                    .await
                    .unwrap();
            }
            Ok(ToolOutput::new("ran", &()))
        });
        let hub = Hub::with([tool]).await;
        hub.dispatcher.set_nodes(TestNodes::of([offline_node()]));
        let reply = hub.dispatcher.call(hub.admin(), keyed("shell", queued(1), "k")).await;
        assert_eq!(reply.result.unwrap().text(), "ran");
    })
    .await;
}

#[tokio::test]
async fn a_queued_call_that_is_cancelled_never_runs() {
    bounded(async {
        let hub = Hub::with([waiting()]).await;
        hub.dispatcher.set_nodes(TestNodes::of([offline_node()]));
        let request = keyed("shell", queued(600), "k");
        let cancel = request.cancel.clone();
        let (_, reply) = start_call(&hub, request);
        let call_id = row(&hub).await.call_id;
        hub.clock.advance(Duration::from_secs(700));
        assert_eq!(hub.dispatcher.expire_node_calls().await.unwrap(), 0, "whoever waits ends it");
        cancel.cancel();
        let error = reply.await.unwrap().result.unwrap_err();
        assert_eq!((error.code, error.hint.as_deref()), (ErrorCode::Cancelled, Some("Nothing was run.")));
        let sent = hub.store.write(move |conn| Box::pin(conn.send_node_call(call_id, Uuid::nil()))).await;
        assert!(!sent.unwrap(), "there is nothing left to send");
    })
    .await;
}

#[tokio::test]
async fn queued_call_survives_a_restart_and_expires() {
    bounded(async {
        let tool = shell(|_, _| async {
            Err(CallError::new(ErrorCode::Unavailable, "the hub stops").while_still_running())
        });
        let hub = Hub::with([tool]).await;
        hub.dispatcher.set_nodes(TestNodes::of([offline_node()]));
        let reply = hub.dispatcher.call(hub.admin(), keyed("shell", queued(600), "k")).await;
        assert_eq!(reply.result.unwrap_err().code, ErrorCode::Unavailable);
        let hub = hub.restarted().await;
        let machines = TestNodes::of([offline_node()]);
        hub.dispatcher.set_nodes(machines.clone());
        assert_eq!(row(&hub).await.state, NodeCallState::Queued);
        hub.clock.advance(Duration::from_secs(599));
        assert_eq!(hub.dispatcher.expire_node_calls().await.unwrap(), 0);
        hub.clock.advance(Duration::from_secs(2));
        assert_eq!(hub.dispatcher.expire_node_calls().await.unwrap(), 1);
        assert_eq!(hub.dispatcher.expire_node_calls().await.unwrap(), 0);
        assert!(rows(&hub).await.is_empty());
        assert_eq!(machines.settled().len(), 1);
        let audited = hub.audited(reply.call_id).await.unwrap();
        assert_eq!(audited.outcome, "deadline_exceeded");
        let events = hub.events(audited.session_id.unwrap()).await;
        let message = events[1].payload["result"]["message"].as_str().unwrap();
        assert!(message.contains("within the 600 s"), "{message}");
    })
    .await;
}

#[tokio::test]
async fn sent_call_expires_only_after_days_without_a_report() {
    bounded(async {
        let tool = shell(|_, _| async {
            Err(CallError::new(ErrorCode::Unavailable, "the hub stops").while_still_running())
        });
        let hub = Hub::with([tool]).await;
        hub.dispatcher.set_nodes(TestNodes::of([node("nas", &[])]));
        let arguments = json!({ "action": "run", "node": "nas" });
        let reply = hub.dispatcher.call(hub.admin(), keyed("shell", arguments, "k")).await;
        hub.clock.advance(Duration::from_secs(6 * 24 * 3_600));
        assert_eq!(hub.dispatcher.expire_node_calls().await.unwrap(), 0);
        hub.clock.advance(Duration::from_secs(2 * 24 * 3_600));
        assert_eq!(hub.dispatcher.expire_node_calls().await.unwrap(), 1);
        assert_eq!(hub.audited(reply.call_id).await.unwrap().outcome, "interrupted");
    })
    .await;
}
