//! Reasons for which a hub closes a link, as WebSocket close codes. Over HTTP polling the status code says
//! the same: 409 if another link has replaced this one, 401, 403 or 404 if the node is refused, and 410 for
//! any other reason.

/// Another link of the same node has replaced this one.
pub const FENCED: u16 = 4001;
/// The credential is no longer valid, or the node was removed.
pub const REFUSED: u16 = 4003;
