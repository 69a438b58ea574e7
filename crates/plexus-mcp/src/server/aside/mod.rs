//! Calls that go on while their client is not connected.

pub(super) mod tasks;
