use std::sync::Arc;

use plexus_proto::ErrorCode;
use plexus_store::StoreError;

use super::ApiError;

/// A client that is told that nothing was changed retries, and then the change would be stored twice.
#[test]
fn uncertain_commit_is_not_reported_as_unchanged() {
    let source = || Arc::new(sqlx::Error::PoolTimedOut);
    let uncertain = ApiError::from(StoreError::Uncertain { source: source() });
    let away = ApiError::from(StoreError::Query { doing: "reading", source: source() });
    assert_eq!((uncertain.code, away.code), (ErrorCode::Unavailable, ErrorCode::Unavailable));
    let (uncertain, away) = (uncertain.hint.unwrap(), away.hint.unwrap());
    assert!(
        uncertain.contains("may have been stored") && !uncertain.contains("Nothing was changed"),
        "{uncertain}"
    );
    assert!(away.contains("Nothing was changed"), "{away}");
}
