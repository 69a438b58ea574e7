use super::*;

/// The events of a stream that is received in pieces of this size.
fn read(stream: &[u8], piece: usize) -> Vec<(Option<String>, String)> {
    let mut events = SseParser::new(1000);
    let mut read = Vec::new();
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    for bytes in stream.chunks(piece) {
        events.push(bytes);
        while let Some(event) = events.next_event().unwrap() {
            read.push((event.name.as_ref().map(text), text(&event.data)));
        }
    }
    read
}

#[test]
fn parsing_is_independent_of_chunking_and_line_ends() {
    let stream = "\u{feff}: hello\nevent: endpoint\ndata: /messages?id=1\n\ndata:{\"a\":1}\nid: 7\n\n\
                  data: one\ndata: two\n\nid: 8\nretry: 20\ndata:\n\nunknown: x\ndata\n\ndata: end\n\n";
    let expected = vec![
        (Some("endpoint".to_owned()), "/messages?id=1".to_owned()),
        (None, "{\"a\":1}".to_owned()),
        (None, "one\ntwo".to_owned()),
        (None, "end".to_owned()),
    ];
    for end in ["\n", "\r\n", "\r"] {
        let mut stream = stream.replace('\n', end);
        if end == "\r" {
            // Only the next byte shows whether a line feed follows.
            stream.push(':');
        }
        for piece in 1..stream.len() {
            assert_eq!(read(stream.as_bytes(), piece), expected, "{end:?} in pieces of {piece}");
        }
    }
}

#[test]
fn id_takes_effect_when_its_event_is_complete() {
    let mut events = SseParser::new(1000);
    events.push(b"id: 1\ndata:\n\nretry: 1500\nid: 2\ndata: x\n");
    assert_eq!(events.next_event(), Ok(None));
    assert_eq!(events.last_id(), Some("1"));
    events.restart();
    events.push(b"data: y\n\n");
    assert_eq!(events.next_event().unwrap().unwrap().data, "y");
    assert_eq!(events.last_id(), Some("1"));
    assert_eq!(events.retry, Some(Duration::from_millis(1500)));
}

#[test]
fn event_over_size_limit_is_an_error() {
    let mut line = SseParser::new(100);
    line.push(&[b'x'; 101]);
    assert_eq!(line.next_event(), Err(EventTooLong));

    let mut lines = SseParser::new(100);
    let events_read: Result<Vec<_>, _> = (0..20)
        .map(|_| {
            lines.push(b"data: 0123456789\n");
            lines.next_event()
        })
        .collect();
    assert_eq!(events_read, Err(EventTooLong));
}

#[test]
fn retry_delay_of_server_is_clamped() {
    let bounds = Duration::from_millis(100)..=Duration::from_secs(30);
    let own_pause = Duration::from_secs(1);
    for (input, expected) in [
        ("", own_pause),
        ("retry: 0\n", Duration::from_millis(100)),
        ("retry: 2000\n", Duration::from_secs(2)),
        ("retry: 18446744073709551615\n", Duration::from_secs(30)),
    ] {
        let mut events = SseParser::new(1000);
        events.push(input.as_bytes());
        assert_eq!(events.next_event(), Ok(None));
        assert_eq!(events.pause(own_pause, bounds.clone()), expected, "{input:?}");
    }
}
