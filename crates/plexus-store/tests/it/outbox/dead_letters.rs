use plexus_store::outbox::{DeadLetterRecipient, DropOutcome, Write, WriteFilter, WriteState};

use super::{Bench, claim, deliver, fill};
use crate::backend::bounded;

fn ids(writes: &[Write]) -> Vec<i64> {
    writes.iter().map(|write| write.id).collect()
}

#[tokio::test]
async fn retried_dead_letter_is_requeued_last_with_its_key_and_time() {
    bounded(async {
        let bench = Bench::new();
        let outbox = bench.open().await;
        fill(&outbox, "s", &["a", "b"]).await;
        let first = claim(&outbox, "me").await.unwrap();
        outbox.dead_letter(&first, "HTTP 409").await.unwrap();
        bench.clock.advance(super::LEASE);
        let new = outbox.retry(first.id).await.unwrap().unwrap();
        assert!(new > first.id, "{new}");
        assert_eq!(outbox.retry(first.id).await.unwrap(), None, "not a dead letter any more");
        assert_eq!(outbox.retry(new).await.unwrap(), None);
        assert!(!outbox.settle(&first).await.unwrap(), "the old claim is void");
        let second = claim(&outbox, "me").await.unwrap();
        assert_eq!(second.key, "b");
        outbox.settle(&second).await.unwrap();
        let again = claim(&outbox, "me").await.unwrap();
        assert_eq!((&again.key, again.occurred_at), (&first.key, first.occurred_at));
        assert_eq!((again.id, again.attempts), (new, 1));
        outbox.settle(&again).await.unwrap();
        // Ids are never reused.
        fill(&outbox, "s", &["c"]).await;
        assert!(ids(&outbox.list(WriteFilter::All, 0, 10).await.unwrap())[0] > new);
    })
    .await;
}

#[tokio::test]
async fn waiting_write_is_dropped_only_on_request_and_never_in_flight() {
    bounded(async {
        let bench = Bench::new();
        let outbox = bench.open().await;
        fill(&outbox, "s", &["a", "b", "c"]).await;
        let listed = outbox.list(WriteFilter::Pending, 0, 10).await.unwrap();
        let [a, b, c] = ids(&listed)[..] else { panic!("{listed:?}") };
        assert_eq!(ids(&outbox.list(WriteFilter::Pending, a, 1).await.unwrap()), [b]);
        assert_eq!(outbox.drop(b, false).await.unwrap(), DropOutcome::Waiting);
        let claimed = claim(&outbox, "me").await.unwrap();
        let (sending, params) = outbox.show(a).await.unwrap().unwrap();
        assert!(matches!(sending.state, WriteState::Sending { owner, .. } if owner == "me"));
        assert!(params.contains("\"text\":\"a\""), "{params}");
        assert_eq!(outbox.drop(a, true).await.unwrap(), DropOutcome::InFlight);
        assert_eq!(outbox.drop(b, true).await.unwrap(), DropOutcome::Dropped);
        assert_eq!(outbox.drop(b, true).await.unwrap(), DropOutcome::NotFound);
        outbox.dead_letter(&claimed, "no").await.unwrap();
        assert_eq!(ids(&outbox.list(WriteFilter::Dead, 0, 10).await.unwrap()), [a]);
        assert_eq!(ids(&outbox.list(WriteFilter::All, 0, 10).await.unwrap()), [a, c]);
        assert_eq!(outbox.drop(a, false).await.unwrap(), DropOutcome::Dropped);
        assert_eq!(deliver(&outbox).await, ["c"]);
        assert_eq!(outbox.counts().await.unwrap().bytes, 0);
    })
    .await;
}

#[tokio::test]
async fn hub_and_agent_are_each_notified_until_they_confirm() {
    bounded(async {
        let bench = Bench::new();
        let outbox = bench.open().await;
        fill(&outbox, "s", &["a"]).await;
        fill(&outbox, "t", &["b"]).await;
        assert_eq!(outbox.unreported_dead_letters(DeadLetterRecipient::Hub, None, 10).await.unwrap(), []);
        for _ in 0..2 {
            let claimed = claim(&outbox, "me").await.unwrap();
            outbox.dead_letter(&claimed, "no").await.unwrap();
        }
        let dead_letters = outbox.unreported_dead_letters(DeadLetterRecipient::Hub, None, 10).await.unwrap();
        assert_eq!(dead_letters.len(), 2);
        outbox.mark_dead_letters_reported(DeadLetterRecipient::Hub, &dead_letters).await.unwrap();
        assert_eq!(outbox.unreported_dead_letters(DeadLetterRecipient::Hub, None, 10).await.unwrap(), []);
        let of_t = outbox.unreported_dead_letters(DeadLetterRecipient::Agent, Some("t"), 10).await.unwrap();
        assert_eq!(of_t.iter().map(|dead_letter| dead_letter.key.as_str()).collect::<Vec<_>>(), ["b"]);
        outbox.mark_dead_letters_reported(DeadLetterRecipient::Agent, &of_t).await.unwrap();
        assert_eq!(
            outbox.unreported_dead_letters(DeadLetterRecipient::Agent, None, 10).await.unwrap().len(),
            1
        );
        let (shown, _) = outbox.show(of_t[0].id).await.unwrap().unwrap();
        assert!(
            matches!(shown.state, WriteState::Dead { hub_notified: true, agent_notified: true, .. }),
            "{shown:?}"
        );
        // A retried write that fails again is reported again.
        outbox.retry(of_t[0].id).await.unwrap().unwrap();
        let claimed = claim(&outbox, "me").await.unwrap();
        outbox.dead_letter(&claimed, "still no").await.unwrap();
        assert_eq!(
            outbox.unreported_dead_letters(DeadLetterRecipient::Hub, None, 10).await.unwrap().len(),
            1
        );
    })
    .await;
}
