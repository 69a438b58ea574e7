//! Random faults under full load, most of them `kill -9`: what was acknowledged is stored once and recorded.
//!
//! The rounds share one data folder, so each starts from what the crashes before it left behind.

mod journal;
mod logins;
mod nodes;
mod outage;
mod parked;
pub(crate) mod records;
mod scene;

use plexus_testkit::Plexus;
use plexus_testkit::faults::{Load, UnansweredPolicy, rounds};

use scene::{HubScene, Plan};

/// Writes of one client in one round. Every second one goes to a to-do list, which holds 300.
const WRITES: usize = 550;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_crashes_under_load_lose_nothing() {
    interrupted(crate::plexus(), 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_crashes_under_load_lose_nothing_on_postgres() {
    if let Some(plexus) = crate::plexus_on_postgres().await {
        interrupted(plexus, 20).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retrying_clients_write_once_through_crashes_and_cut_connections() {
    retrying(crate::plexus(), 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_between_the_journal_and_the_database_lose_no_record() {
    journal::interrupted(crate::plexus(), 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_between_the_journal_and_the_database_lose_no_record_on_postgres() {
    if let Some(plexus) = crate::plexus_on_postgres().await {
        journal::interrupted(plexus, 6).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_during_a_token_refresh_leave_a_reported_state() {
    logins::interrupted(crate::plexus(), 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_during_parked_calls_and_tasks_run_nothing_twice() {
    parked::interrupted(crate::plexus(), 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_commands_end_once_through_crashes_and_cut_connections() {
    nodes::interrupted("ws", 12).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_on_a_polling_node_end_once_through_crashes_and_cut_connections() {
    nodes::interrupted("poll", 12).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxied_writes_survive_crashes_and_lost_answers() {
    outage::run(outage::Plan { writes: 400, kills: 4 }, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn proxied_writes_survive_twenty_rounds_of_twenty_crashes() {
    outage::run(outage::Plan { writes: 5_000, kills: 20 }, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn node_commands_end_once_through_two_hundred_rounds_of_crashes() {
    nodes::interrupted("ws", 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn commands_on_a_polling_node_end_once_through_two_hundred_rounds_of_crashes() {
    nodes::interrupted("poll", 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn three_hundred_crashes_during_parked_calls_and_tasks_run_nothing_twice() {
    parked::interrupted(crate::plexus(), 300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn two_hundred_crashes_during_a_token_refresh_leave_a_reported_state() {
    logins::interrupted(crate::plexus(), 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn two_hundred_crashes_between_the_journal_and_the_database_lose_no_record() {
    journal::interrupted(crate::plexus(), 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn three_hundred_crashes_under_load_lose_nothing() {
    interrupted(crate::plexus(), 300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn two_hundred_crashes_under_load_lose_nothing_on_postgres() {
    if let Some(plexus) = crate::plexus_on_postgres().await {
        interrupted(plexus, 200).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn retrying_clients_write_once_through_a_hundred_rounds_of_crashes() {
    retrying(crate::plexus(), 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn retrying_clients_write_once_through_fifty_rounds_of_crashes_on_postgres() {
    if let Some(plexus) = crate::plexus_on_postgres().await {
        retrying(plexus, 50).await;
    }
}

/// One fault per round; interrupted writes are checked before they are sent again.
async fn interrupted(plexus: Plexus, count: u64) {
    let mut scene = HubScene::new(plexus, Plan::OneFault).await;
    let load = Load { most: WRITES, unanswered_policy: UnansweredPolicy::Stop };
    let tally = rounds(&mut scene, count, load).await;
    eprintln!("done without an answer: {}", scene.done_unanswered());
    if tally.rounds < count {
        return;
    }
    assert!(tally.acknowledged > tally.rounds as usize * 20, "hardly any load: {tally:?}");
    assert!(tally.unanswered > 0, "no write was ever interrupted: {tally:?}");
}

/// Several faults per round; clients retry until they get an answer.
async fn retrying(plexus: Plexus, count: u64) {
    let mut scene = HubScene::new(plexus, Plan::ManyFaults).await;
    let load = Load { most: WRITES, unanswered_policy: UnansweredPolicy::Retry };
    let tally = rounds(&mut scene, count, load).await;
    assert_eq!(tally.unanswered, 0, "{tally:?}");
    if tally.rounds < count {
        return;
    }
    assert!(tally.acknowledged > tally.rounds as usize * 20, "hardly any load: {tally:?}");
    assert!(tally.retries > 0, "no client ever had to retry: {tally:?}");
}
