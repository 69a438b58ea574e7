//! Tests of the terminal with real processes.

pub(crate) mod ends;
mod input;
mod live;
mod output;
mod refused;
mod restarts;
