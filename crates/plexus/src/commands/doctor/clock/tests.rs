use super::super::Level;
use super::judge;

#[test]
fn wrong_clock_is_reported() {
    let at = |text: &str| text.parse().unwrap();
    let hub = Some("Sun, 01 Mar 2026 12:00:00 GMT");
    for (now, hub, level) in [
        ("2026-03-01T12:00:29Z", hub, Level::Ok),
        ("2026-03-01T12:00:31Z", hub, Level::Problem),
        ("2026-03-01T11:59:00Z", hub, Level::Problem),
        ("2026-03-01T11:59:00Z", None, Level::Ok),
        ("1970-01-01T00:00:00Z", None, Level::Problem),
        ("2026-03-01T12:00:00Z", Some("yesterday"), Level::Warning),
    ] {
        let hub = hub.map(|date| ("the hub", date));
        assert_eq!(judge(at(now), hub).level, level, "{now} {hub:?}");
    }
}
