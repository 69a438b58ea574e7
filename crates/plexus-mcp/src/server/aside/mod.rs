//! Calls that go on while their client is not connected.

mod answers;
pub(super) mod tasks;
