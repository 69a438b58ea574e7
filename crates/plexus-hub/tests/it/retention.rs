//! Retention: old entries are deleted automatically, and the remaining log is intact.

use std::time::Duration;

use plexus_kit::config::Retention;
use plexus_proto::StreamControl;
use plexus_testkit::{ReceivedMessage, TestHub};

use crate::agent::Agent;

const DAY: Duration = Duration::from_secs(24 * 3600);
const TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

#[tokio::test]
async fn old_entries_are_deleted_and_the_rest_stays_intact() {
    let hub = TestHub::start_with(|config| {
        config.retention = Retention { events_days: Some(3), audit_days: Some(5) };
    })
    .await;
    let agent = Agent::new(&hub, "a").await;
    let id = agent.call("one").await;
    agent.call("one").await;
    let hub = hub.restart_later(4 * DAY).await;
    let log = format!("/api/v1/sessions/{id}/events");
    let swept = async {
        while !hub.api(&log).await["items"].as_array().unwrap().is_empty() {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(TIMEOUT, swept).await.expect("old events are deleted");
    let before = hub.api("/api/v1/audit/verify").await;
    assert_eq!(before["ok"], true, "{before}");
    // Four days are within the audit's retention, and event numbers continue.
    assert!(before["entries"].as_i64().unwrap() >= 4, "{before}");
    let hub = hub.restart_later(2 * DAY).await;
    let verified = async {
        loop {
            let report = hub.api("/api/v1/audit/verify").await;
            if report["entries"].as_i64() < before["entries"].as_i64() {
                return report;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    let report = tokio::time::timeout(TIMEOUT, verified).await.expect("old entries are deleted");
    assert_eq!(report["ok"], true, "{report}");
    let agent = Agent::new(&hub, "a").await;
    assert_eq!(agent.call("one").await, id);
    assert_eq!(hub.api("/api/v1/audit/verify").await["ok"], true);
    let mut stream = hub.events(format!("/ws/sessions/{id}?after=0"), &hub.admin_token()).open().await;
    assert_eq!(stream.next().await, ReceivedMessage::Control(StreamControl::Open { after: 0 }));
    assert!(matches!(stream.next().await, ReceivedMessage::Control(StreamControl::Pruned { .. })));
    assert_eq!((stream.event().await.seq, stream.event().await.seq), (5, 6));
}
