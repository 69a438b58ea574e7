use std::sync::Arc;

use plexus_proto::ErrorCode;
use plexus_store::StoreError;

use super::ApiError;

/// Whoever is told that nothing was changed sends it again, and then it is there twice.
#[test]
fn what_may_have_been_stored_is_not_called_unchanged() {
    let source = || Arc::new(sqlx::Error::PoolTimedOut);
    let uncertain = ApiError::from(StoreError::Uncertain { source: source() });
    let away = ApiError::from(StoreError::Query { doing: "reading", source: source() });
    assert_eq!((uncertain.code, away.code), (ErrorCode::Unavailable, ErrorCode::Unavailable));
    let (uncertain, away) = (uncertain.hint.unwrap(), away.hint.unwrap());
    assert!(
        uncertain.contains("may have been done") && !uncertain.contains("Nothing was changed"),
        "{uncertain}"
    );
    assert!(away.contains("Nothing was changed"), "{away}");
}
