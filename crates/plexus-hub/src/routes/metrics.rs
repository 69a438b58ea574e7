//! `/metrics`, for Prometheus and what reads its format.

use axum::extract::State;
use http::header::CONTENT_TYPE;
use plexus_kit::metrics::MEDIA_TYPE;

use crate::App;
use crate::http::{ApiError, Caller};

/// Whether there is such a page.
const OFFERED: bool = true;

pub(super) async fn show(
    caller: Caller,
    State(app): State<App>,
) -> Result<([(http::HeaderName, &'static str); 1], String), ApiError> {
    if !OFFERED {
        return Err(ApiError::not_found("this hub does not offer its metrics"));
    }
    // They tell what others do.
    caller.needs("read:metrics")?;
    let text = app.metrics.text().map_err(|error| ApiError::internal("writing the metrics", &error))?;
    Ok(([(CONTENT_TYPE, MEDIA_TYPE)], text))
}
