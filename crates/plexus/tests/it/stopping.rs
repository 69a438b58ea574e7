//! How a hub stops when it is asked to: streams end, calls are answered, and all of it is kept.

use std::time::{Duration, Instant};

use plexus_testkit::faults::{Load, OnSilence, Scene, Schedule, Sent, exactly_once, rounds};
use plexus_testkit::{Door, HubProcess, Lane, Plexus, SseEvent, SseStream};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;

/// What a stop may take with streams open.
const PROMPT: Duration = Duration::from_secs(5);

/// A session's own stream and a subscription of the stateless revision, both confirmed.
pub(crate) async fn streams(hub: &HubProcess) -> (SseStream, SseStream) {
    let token = hub.token("codex").await;
    let (session, _) = hub.mcp(&token.token).initialize("2025-11-25").await;
    let mut own = session.get_stream().await;
    assert_eq!(own.status(), 200);
    assert!(matches!(own.next().await, Some(SseEvent::Priming { .. })));
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let (client, body) = hub.mcp(&token.token).modern_request("listen-1", "subscriptions/listen", wanted);
    let mut listening = client.post_stream(&body).await;
    let first = listening.message().await.expect("an acknowledgement");
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    (own, listening)
}

/// Both streams to their end.
async fn ended((mut own, mut listening): (SseStream, SseStream)) {
    while let Some(event) = own.next().await {
        assert!(matches!(event, SseEvent::Comment(_)), "{event:?}");
    }
    let last = listening.message().await.expect("a completion");
    assert_eq!(
        (&last["id"], &last["result"]["resultType"]),
        (&json!("listen-1"), &json!("complete")),
        "{last}"
    );
    assert_eq!(listening.next().await, None);
}

#[tokio::test]
async fn sigterm_ends_streams_and_exits_with_0() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let (address_file, streams) = (hub.data_dir().join("hub.json"), streams(&hub).await);
    let began = Instant::now();
    let (status, ()) = tokio::join!(hub.terminate(), ended(streams));
    assert_eq!(status.code(), Some(0));
    assert!(began.elapsed() < PROMPT, "it took {:?}", began.elapsed());
    assert!(!address_file.exists(), "nobody is at that address any more");
}

#[tokio::test]
async fn sigint_ends_streams_and_exits_with_0() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let streams = streams(&hub).await;
    let began = Instant::now();
    let (status, ()) = tokio::join!(hub.interrupt(), ended(streams));
    assert_eq!(status.code(), Some(0));
    assert!(began.elapsed() < PROMPT, "it took {:?}", began.elapsed());
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

/// A hub that is stopped amid the load, and another on the same folder.
struct StopScene {
    plexus: Plexus,
    hub: Option<HubProcess>,
}

impl StopScene {
    fn hub(&self) -> &HubProcess {
        self.hub.as_ref().expect("a hub")
    }
}

impl Scene for StopScene {
    type Writer = Lane;
    type Fault = &'static str;

    fn schedule(&self, rng: &mut StdRng) -> Schedule<&'static str> {
        Schedule::one(Duration::from_millis(rng.random_range(100..300)), "stop")
    }

    async fn writers(&mut self, round: u64) -> Vec<Lane> {
        let mut lanes = Vec::new();
        for place in 0..9 {
            let name = format!("r{round}-{place}");
            let token = self.hub().token(&name).await;
            lanes.push(Lane::new(self.hub().url(""), token, Door::nth(place, "2025-11-25", name)));
        }
        lanes
    }

    async fn strike(&mut self, _stop: &'static str) {
        let began = Instant::now();
        assert_eq!(self.hub.take().expect("a hub").terminate().await.code(), Some(0));
        assert!(began.elapsed() < PROMPT, "it took {:?}", began.elapsed());
        self.hub = Some(self.plexus.up().await);
    }

    /// Whatever was done was also answered, and nothing else was done.
    async fn check(&mut self, sent: Vec<Sent<Lane>>) {
        for mut sent in sent {
            sent.writer.moved_to(self.hub().url(""));
            let found = sent.writer.found().await.expect("the hub answers");
            exactly_once(&sent, &found).unwrap_or_else(|wrong| panic!("{:?}: {wrong}", sent.writer.door));
            assert_eq!(found.len(), sent.acknowledged().count(), "done, and not answered");
        }
        assert_eq!(self.hub().api("/api/v1/audit/verify").await["ok"], true);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_answers_all_that_it_did() {
    let plexus = crate::plexus();
    let hub = Some(plexus.up().await);
    let load = Load { most: 400, on_silence: OnSilence::Stop };
    let tally = rounds(&mut StopScene { plexus, hub }, 4, load).await;
    assert!(tally.acknowledged > 0, "no load: {tally:?}");
}
