use super::*;

#[test]
fn reused_process_id_is_not_the_process() {
    let own = ProcessId::own();
    assert!(own.is_alive() && !own.is_suspended());
    let earlier = ProcessId { born: own.born.map(|born| born - 1), ..own.clone() };
    assert!(!earlier.is_alive());
    let before = ProcessId { boot: Some("another".to_owned()), ..own.clone() };
    assert!(!before.is_alive());
    assert!(!ProcessId { born: None, ..own }.is_alive(), "not known to be the same");
}
