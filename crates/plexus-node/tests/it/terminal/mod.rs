//! The terminal against real processes.

pub(crate) mod ends;
mod found;
mod input;
mod live;
mod output;
mod refused;
