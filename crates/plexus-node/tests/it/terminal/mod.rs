//! The terminal against real processes.

mod ends;
mod found;
mod input;
mod live;
mod output;
mod refused;
