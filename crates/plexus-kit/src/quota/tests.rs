use super::Quota;

#[test]
fn each_name_has_its_own_limit_and_drop_releases_a_slot() {
    let quota = Quota::new(2);
    let first = quota.enter("ann").unwrap();
    let _second = quota.enter("ann").unwrap();
    assert!(quota.enter("ann").is_none());
    let _other = quota.enter("bob").unwrap();
    assert_eq!(quota.total(), 3);
    drop(first);
    assert!(quota.enter("ann").is_some());
    quota.set_limit(1);
    assert!(quota.enter("ann").is_none());
    quota.set_limit(3);
    assert!(quota.enter("ann").is_some());
}
