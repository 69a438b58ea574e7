use super::{has_password, redacted};

#[test]
fn password_is_redacted_in_every_position() {
    for (url, shown, has) in [
        ("postgres://ann:p@s/s:w@db:5432/plexus", "postgres://ann:***@db:5432/plexus", true),
        ("postgres://ann@db/plexus", "postgres://ann@db/plexus", false),
        ("postgres://db/x?user=ann&password=p", "postgres://db/x?user=ann&password=***", true),
        ("postgres://ann:p?q@db/x", "postgres://ann:***@db/x", true),
        ("sqlite:/var/lib/plexus.db", "sqlite:/var/lib/plexus.db", false),
        ("http://otel:4318/base", "http://otel:4318/base", false),
        ("https://ann:p@s/s@otel/base", "https://***@otel/base", true),
        ("https://p@otel", "https://***@otel", true),
        ("https://otel/base?api-key=p&x=y", "https://otel/base?***", true),
        ("https://otel/#p", "https://otel/?***", false),
        ("hunter2", "***", true),
        ("", "", false),
    ] {
        assert_eq!((redacted(url).as_str(), has_password(url)), (shown, has), "{url}");
    }
}
