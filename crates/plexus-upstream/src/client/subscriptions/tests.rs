use super::*;

#[test]
fn lost_subscriptions_are_renewed_and_reported_once() {
    let subscriptions = Subscriptions::new();
    let desired = BTreeSet::from(["a://1".to_owned()]);
    subscriptions.subscribed("a://1".to_owned(), true);
    assert_eq!(subscriptions.difference(&desired), Difference::default());
    assert_eq!(subscriptions.take_lost(), BTreeSet::new());
    subscriptions.forget();
    assert_eq!(subscriptions.difference(&desired).more, ["a://1"]);
    assert_eq!(subscriptions.take_lost(), desired);
    assert_eq!(subscriptions.take_lost(), BTreeSet::new());
}
