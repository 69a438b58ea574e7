//! Tests of the harness itself: a checker that accepts everything would never fail.

use std::time::Duration;

use rand::RngExt;

use super::{Attempt, Schedule, ScheduledFault, Seed, Sent, Write, Writer, exactly_once};

struct Nobody;

impl Writer for Nobody {
    type Ack = ();

    async fn write(&mut self, _write: &Write) -> Option<()> {
        None
    }
}

/// A writer's attempts: each marker with whether it was acknowledged.
fn sent(writes: &[(&str, bool)]) -> Sent<Nobody> {
    let attempt = |(number, (marker, acknowledged)): (usize, &(&str, bool))| Attempt {
        write: Write { number, marker: (*marker).to_owned(), key: String::new() },
        ack: acknowledged.then_some(()),
        retries: 0,
    };
    Sent { writer: Nobody, attempts: writes.iter().enumerate().map(attempt).collect() }
}

#[test]
fn lost_duplicate_and_foreign_writes_are_reported() {
    let sent = sent(&[("a;", true), ("b;", false)]);
    let verdict = |found: &[&str]| {
        let found: Vec<String> = found.iter().map(|marker| (*marker).to_owned()).collect();
        exactly_once(&sent, &found)
    };
    assert_eq!(verdict(&["a;"]), Ok(()));
    assert_eq!(verdict(&["a;", "b;"]), Ok(()));
    assert_eq!(verdict(&["b;"]), Err("a; was acknowledged and is lost".to_owned()));
    assert_eq!(verdict(&["a;", "a;"]), Err("a; is there 2 times".to_owned()));
    assert_eq!(verdict(&["a;", "b;", "b;"]), Err("b; is there 2 times".to_owned()));
    assert_eq!(verdict(&["a;", "c;"]), Err("c; was not sent by this writer".to_owned()));
}

#[test]
fn random_choices_of_a_round_are_independent_of_earlier_rounds() {
    let seed = Seed::choose();
    let schedule = |round: u64| -> Schedule<u8> {
        let mut rng = seed.round(round);
        let inject = |_| ScheduledFault { after: Duration::from_micros(rng.random()), fault: rng.random() };
        (0..8).map(inject).collect()
    };
    assert_eq!(schedule(7), schedule(7));
    assert_ne!(schedule(7), schedule(8));
}
