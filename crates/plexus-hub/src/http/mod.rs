//! Shared parts of all routes: authentication, request checks, bodies, limits and error responses.

mod body;
mod caller;
mod error;
mod etag;
mod guard;
mod metrics;
mod node_caller;
mod observe;

pub(crate) use caller::{Caller, note_failed_attempt};
pub(crate) use error::{ApiError, finish};
pub(crate) use etag::{Tag, Tagged};
pub(crate) use guard::guard;
pub(crate) use metrics::HttpMetrics;
pub(crate) use node_caller::NodeCaller;
pub(crate) use observe::{observe, trace_context};
