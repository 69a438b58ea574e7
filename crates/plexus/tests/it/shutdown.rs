//! Graceful shutdown: streams end, calls are answered, and all data is stored.

use std::time::{Duration, Instant};

use plexus_testkit::faults::{FaultScenario, Load, Schedule, Sent, UnansweredPolicy, exactly_once, rounds};
use plexus_testkit::{HubProcess, Plexus, SessionWriter, SseEvent, SseStream, WriterProtocol};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;

/// Time limit for a shutdown with open streams.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// The stream of a session and a subscription of the stateless revision, both established.
pub(crate) async fn open_streams(hub: &HubProcess) -> (SseStream, SseStream) {
    let token = hub.token("codex").await;
    let (session, _) = hub.mcp(&token.token).initialize("2025-11-25").await;
    let mut session_stream = session.get_stream().await;
    assert_eq!(session_stream.status(), 200);
    assert!(matches!(session_stream.next().await, Some(SseEvent::Priming { .. })));
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let (client, body) = hub.mcp(&token.token).modern_request("listen-1", "subscriptions/listen", wanted);
    let mut subscription = client.post_stream(&body).await;
    let first = subscription.message().await.expect("an acknowledgement");
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    (session_stream, subscription)
}

/// Reads both streams to their end.
async fn read_to_end((mut session_stream, mut subscription): (SseStream, SseStream)) {
    while let Some(event) = session_stream.next().await {
        assert!(matches!(event, SseEvent::Comment(_)), "{event:?}");
    }
    let last = subscription.message().await.expect("a completion");
    assert_eq!(
        (&last["id"], &last["result"]["resultType"]),
        (&json!("listen-1"), &json!("complete")),
        "{last}"
    );
    assert_eq!(subscription.next().await, None);
}

#[tokio::test]
async fn sigterm_ends_streams_and_exits_with_0() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let (address_file, streams) = (hub.data_dir().join("hub.json"), open_streams(&hub).await);
    let started = Instant::now();
    let (status, ()) = tokio::join!(hub.terminate(), read_to_end(streams));
    assert_eq!(status.code(), Some(0));
    assert!(started.elapsed() < SHUTDOWN_LIMIT, "it took {:?}", started.elapsed());
    assert!(!address_file.exists(), "the address file still exists");
}

#[tokio::test]
async fn sigint_ends_streams_and_exits_with_0() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let streams = open_streams(&hub).await;
    let started = Instant::now();
    let (status, ()) = tokio::join!(hub.interrupt(), read_to_end(streams));
    assert_eq!(status.code(), Some(0));
    assert!(started.elapsed() < SHUTDOWN_LIMIT, "it took {:?}", started.elapsed());
}

#[tokio::test]
async fn tokens_and_mcp_sessions_outlive_a_restart() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let (admin, token) = (hub.admin_token(), hub.token("codex").await);
    let (session, _) = hub.mcp(&token.token).initialize("2025-06-18").await;
    let params = json!({ "name": "todo", "arguments": { "action": "add", "text": "survive" } });
    session.call("tools/call", params).await.result();
    assert!(hub.terminate().await.success());

    let hub = plexus.up().await;
    assert_eq!(hub.admin_token(), admin);
    hub.api_as(&admin, "/api/v1/status").await;
    let session = session.at(hub.url("/mcp"));
    let list = session.call("tools/call", json!({ "name": "todo", "arguments": { "action": "list" } })).await;
    assert_eq!(list.result()["structuredContent"]["items"][0]["text"], "survive", "{list:?}");
    let unknown = session.header("mcp-session-id", "0123456789abcdef").call("ping", json!({})).await;
    assert_eq!(unknown.status, 404, "{unknown:?}");
}

/// A hub that is stopped under load and restarted on the same folder.
struct StopScene {
    plexus: Plexus,
    hub: Option<HubProcess>,
}

impl StopScene {
    fn hub(&self) -> &HubProcess {
        self.hub.as_ref().expect("a hub")
    }
}

impl FaultScenario for StopScene {
    type Writer = SessionWriter;
    type Fault = &'static str;

    fn schedule(&self, rng: &mut StdRng) -> Schedule<&'static str> {
        Schedule::one(Duration::from_millis(rng.random_range(100..300)), "stop")
    }

    async fn writers(&mut self, round: u64) -> Vec<SessionWriter> {
        let mut writers = Vec::new();
        for index in 0..9 {
            let name = format!("r{round}-{index}");
            let token = self.hub().token(&name).await;
            writers.push(SessionWriter::new(
                self.hub().url(""),
                token,
                WriterProtocol::nth(index, "2025-11-25", name),
            ));
        }
        writers
    }

    async fn inject(&mut self, _stop: &'static str) {
        let started = Instant::now();
        assert_eq!(self.hub.take().expect("a hub").terminate().await.code(), Some(0));
        assert!(started.elapsed() < SHUTDOWN_LIMIT, "it took {:?}", started.elapsed());
        self.hub = Some(self.plexus.up().await);
    }

    /// Every write that was done was also answered.
    async fn check(&mut self, sent: Vec<Sent<SessionWriter>>) {
        for mut sent in sent {
            sent.writer.set_url(self.hub().url(""));
            let found = sent.writer.stored_markers().await.expect("the hub answers");
            exactly_once(&sent, &found).unwrap_or_else(|wrong| panic!("{:?}: {wrong}", sent.writer.protocol));
            assert_eq!(found.len(), sent.acknowledged().count(), "done but not answered");
        }
        assert_eq!(self.hub().api("/api/v1/audit/verify").await["ok"], true);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_under_load_answers_every_write_that_was_done() {
    let plexus = crate::plexus();
    let hub = Some(plexus.up().await);
    let load = Load { most: 400, unanswered_policy: UnansweredPolicy::Stop };
    let tally = rounds(&mut StopScene { plexus, hub }, 4, load).await;
    assert!(tally.acknowledged > 0, "no load: {tally:?}");
}
