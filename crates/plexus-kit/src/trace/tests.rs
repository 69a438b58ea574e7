use super::{TRACEPARENT, TRACESTATE, TraceContext};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn extract(traceparent: &str, tracestate: Option<&str>) -> Option<TraceContext> {
    TraceContext::extract(|name| match name {
        TRACEPARENT => Some(traceparent),
        TRACESTATE => tracestate,
        _ => None,
    })
}

#[test]
fn context_is_preserved_unchanged() {
    let context = extract(PARENT, Some("vendor=1,other=x:y")).unwrap();
    assert_eq!(context.traceparent(), PARENT);
    assert_eq!(context.tracestate(), Some("vendor=1,other=x:y"));
    assert!(TraceContext::extract(|_| None).is_none());
}

#[test]
fn later_versions_may_be_longer() {
    assert!(extract(&PARENT.replacen("00", "01", 1), None).is_some());
    assert!(extract(&format!("{}-more", PARENT.replacen("00", "cc", 1)), None).is_some());
    assert!(extract(&format!("{}more", PARENT.replacen("00", "cc", 1)), None).is_none());
}

#[test]
fn invalid_traceparent_is_ignored() {
    for wrong in [
        "",
        "00",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
        "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
        "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
    ] {
        assert_eq!(extract(wrong, None), None, "{wrong:?}");
    }
}

#[test]
fn invalid_tracestate_is_dropped() {
    for wrong in ["", "a=\n", &"x".repeat(513)] {
        assert_eq!(extract(PARENT, Some(wrong)).unwrap().tracestate(), None, "{wrong:?}");
    }
}
