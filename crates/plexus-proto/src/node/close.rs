//! Why a hub closes the WebSocket of a link, as the number of the close frame. By requests the same is said with the status:
//! 409 for a link that another has taken the place of, 401, 403 or 404 for one that is refused, 410 for any other end.

/// Another link of the same node has taken its place.
pub const FENCED: u16 = 4001;
/// The credential is not good any more, or the node was removed.
pub const REFUSED: u16 = 4003;
