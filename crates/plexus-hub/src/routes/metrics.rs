//! `/metrics`, for Prometheus and compatible collectors.

use axum::extract::State;
use http::header::CONTENT_TYPE;
use plexus_kit::metrics::MEDIA_TYPE;

use crate::App;
use crate::http::{ApiError, Caller};

pub(super) async fn show(
    caller: Caller,
    State(app): State<App>,
) -> Result<([(http::HeaderName, &'static str); 1], String), ApiError> {
    if !app.config.load().telemetry.metrics {
        return Err(ApiError::not_found("this hub does not serve metrics"));
    }
    // Metrics reveal the activity of other callers.
    caller.require_scope("read:metrics")?;
    let text = app.metrics.text().map_err(|error| ApiError::internal("writing the metrics", &error))?;
    Ok(([(CONTENT_TYPE, MEDIA_TYPE)], text))
}
