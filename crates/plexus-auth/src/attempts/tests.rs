use std::net::IpAddr;
use std::time::Duration;

use plexus_kit::Clock;
use plexus_proto::Timestamp;

use super::{FailedAttempts, SOURCES};

fn attempts(limit: u32) -> (FailedAttempts, Clock) {
    let clock = Clock::manual("2026-11-01T00:00:00Z".parse::<Timestamp>().unwrap());
    (FailedAttempts::new(limit, clock.clone()), clock)
}

fn address(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

#[test]
fn an_address_that_fails_too_often_is_told_to_wait_for_the_rest_of_the_minute() {
    let (attempts, clock) = attempts(3);
    for number in 0..3 {
        assert_eq!(attempts.note(address("10.0.0.1"), Some(&format!("token {number}"))), Ok(()));
    }
    clock.advance(Duration::from_secs(20));
    assert_eq!(attempts.note(address("10.0.0.1"), None), Err(Duration::from_secs(40)));
    assert_eq!(attempts.note(address("10.0.0.2"), None), Ok(()), "another address");
    clock.advance(Duration::from_secs(40));
    assert_eq!(attempts.note(address("10.0.0.1"), None), Ok(()), "a new minute");
}

#[test]
fn a_token_that_fails_too_often_is_told_to_wait_wherever_it_comes_from() {
    let (attempts, _clock) = attempts(3);
    for number in 0..3 {
        assert_eq!(attempts.note(address(&format!("10.0.0.{number}")), Some("leaked")), Ok(()));
    }
    assert!(attempts.note(address("10.0.0.9"), Some("leaked")).is_err());
    assert_eq!(attempts.note(address("10.0.0.9"), Some("another")), Ok(()));
}

#[test]
fn a_network_of_ipv6_is_one_address_and_a_mapped_one_is_its_ipv4() {
    let (attempts, _clock) = attempts(2);
    for text in ["2001:db8::1", "2001:db8::ffff:2"] {
        assert_eq!(attempts.note(address(text), None), Ok(()));
    }
    assert!(attempts.note(address("2001:db8::3"), None).is_err());
    assert_eq!(attempts.note(address("2001:db8:0:1::3"), None), Ok(()));
    for text in ["10.0.0.1", "::ffff:10.0.0.1"] {
        assert_eq!(attempts.note(address(text), None), Ok(()));
    }
    assert!(attempts.note(address("10.0.0.1"), None).is_err());
}

#[test]
fn a_full_table_counts_newcomers_as_one_until_its_entries_are_over() {
    let (attempts, clock) = attempts(2);
    for number in 0..SOURCES {
        assert_eq!(attempts.note(None, Some(&format!("token {number}"))), Ok(()));
    }
    for number in 0..2 {
        assert_eq!(attempts.note(None, Some(&format!("newcomer {number}"))), Ok(()));
    }
    assert!(attempts.note(None, Some("newcomer 3")).is_err());
    assert_eq!(attempts.note(None, Some("token 1")), Ok(()), "whoever is in the table is counted apart");
    assert!(attempts.table.lock().unwrap().windows.len() <= SOURCES + 1);
    clock.advance(Duration::from_secs(60));
    assert_eq!(attempts.note(None, Some("newcomer 3")), Ok(()));
    assert!(attempts.table.lock().unwrap().windows.len() < 5);
}

#[test]
fn an_address_that_must_wait_does_not_fill_the_table_with_tokens() {
    let (attempts, _clock) = attempts(3);
    for number in 0..100 {
        let _ = attempts.note(address("10.0.0.1"), Some(&format!("token {number}")));
    }
    // Itself, and the tokens it was allowed to try.
    assert_eq!(attempts.table.lock().unwrap().windows.len(), 4);
}

#[test]
fn without_a_limit_nothing_is_counted() {
    let (attempts, _clock) = attempts(0);
    assert!((0..100).all(|_| attempts.note(address("10.0.0.1"), Some("a")).is_ok()));
    assert!(attempts.table.lock().unwrap().windows.is_empty());
}
