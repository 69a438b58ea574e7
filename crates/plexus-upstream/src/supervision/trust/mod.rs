//! Which tools of a server are listed, their approval, and logins.

pub(super) mod approval;
mod login;
pub(super) mod publish;
