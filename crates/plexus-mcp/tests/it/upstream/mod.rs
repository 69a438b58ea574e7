//! The client side of MCP, against real servers and against processes that only pretend to be one.

mod misbehaviour;
mod server;
mod stdio;
