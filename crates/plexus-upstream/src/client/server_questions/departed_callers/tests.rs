use super::*;

#[test]
fn departed_caller_counts_until_timeout_or_answer() {
    let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
    let now = Instant::now();
    let mut departed = DepartedCallers::default();
    assert!(!departed.may_concern_other_at(now, Some(&bob)));
    departed.leave_at(now, 1, Some(ann.clone()));
    assert!(departed.may_concern_other_at(now, Some(&bob)) && departed.may_concern_other_at(now, None));
    assert!(!departed.may_concern_other_at(now, Some(&ann)));
    departed.answered(1);
    assert!(!departed.may_concern_other_at(now, Some(&bob)));
    departed.leave_at(now, 2, None);
    assert!(departed.may_concern_other_at(now, Some(&bob)));
    assert!(!departed.may_concern_other_at(now + REMEMBER_TIME, Some(&bob)));
}

#[test]
fn overflow_makes_every_caller_possible() {
    let (ann, now): (Arc<str>, _) = ("ann".into(), Instant::now());
    let mut departed = DepartedCallers::default();
    (0..MAX_DEPARTED).for_each(|id| departed.leave_at(now, id as RequestId, Some(ann.clone())));
    assert!(!departed.may_concern_other_at(now, Some(&ann)));
    departed.leave_at(now, 1_000, Some(ann.clone()));
    assert_eq!(departed.requests.len(), MAX_DEPARTED);
    assert!(departed.may_concern_other_at(now, Some(&ann)));
    assert!(!departed.may_concern_other_at(now + REMEMBER_TIME, Some(&ann)));
}
