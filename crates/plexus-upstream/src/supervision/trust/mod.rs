//! Which tools of a server are listed, who has approved them, and access to servers that want a login.

pub(super) mod approval;
mod login;
pub(super) mod publish;
