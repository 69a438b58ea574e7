use std::sync::Arc;

use plexus_proto::ErrorCode;
use plexus_store::StoreError;

use super::ApiError;

/// A client that is told that nothing was changed retries, and then the change would be stored twice.
#[test]
fn uncertain_commit_is_not_reported_as_unchanged() {
    let source = || Arc::new(sqlx::Error::PoolTimedOut);
    let uncertain = ApiError::from(StoreError::Uncertain { source: source() });
    let unreachable = ApiError::from(StoreError::Query { doing: "reading", source: source() });
    assert_eq!((uncertain.code, unreachable.code), (ErrorCode::Unavailable, ErrorCode::Unavailable));
    let (uncertain, unreachable) = (uncertain.hint.unwrap(), unreachable.hint.unwrap());
    assert!(
        uncertain.contains("may have been stored") && !uncertain.contains("Nothing was changed"),
        "{uncertain}"
    );
    assert!(unreachable.contains("Nothing was changed"), "{unreachable}");
}
