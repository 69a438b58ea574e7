use super::*;

#[test]
fn parts_are_accepted_in_any_order_and_twice() {
    let mut received = Received::default();
    for (part, complete) in [(2, 0), (1, 0), (1, 0), (0, 30), (0, 30), (4, 30), (3, 50), (2, 50)] {
        received.add(part * 10, 10);
        assert_eq!(received.complete(), complete, "after part {part}");
    }
    assert!(received.ahead.is_empty());
    assert!(received.accepts(50 + MAX_PARTS_AHEAD) && !received.accepts(51 + MAX_PARTS_AHEAD));
}

#[test]
fn overlapping_parts_count_once() {
    let mut received = Received::complete_bytes(15);
    received.add(10, 10);
    assert_eq!(received.complete(), 20);
    received.add(25, 5);
    received.add(22, 20);
    received.add(20, 2);
    assert_eq!(received.complete(), 42);
}
