use super::*;

#[test]
fn program_name_may_contain_any_character() {
    let stat =
        Stat::parse("7 (a) b ) 1) T 3 7 6 0 -1 4194560 1 0 0 0 5 6 70 8 20 0 9 0 4242 0 77 1").unwrap();
    let expected = Stat {
        pid: 7,
        dead: false,
        stopped: true,
        parent: 3,
        group: 7,
        session: 6,
        ticks: 11,
        waited_ticks: 78,
        threads: 9,
        start_ticks: 4242,
        resident: 77,
    };
    assert_eq!(stat, expected);
    assert!(Stat::parse("nonsense").is_none());
    assert!(pids().any(|pid| pid == std::process::id()));
}
