//! The fuzz targets.
//!
//! They are here and not in `fuzz/` so that an ordinary test replays the committed corpus, which contains every
//! input that once caused a failure. A target reuses its hub for all inputs, because a hub must withstand any
//! sequence of requests. It panics if an answer violates the rules stated in its module.

mod config;
mod cursor;
mod headers;
mod jsonrpc;
#[cfg(test)]
mod tests;
mod token;
mod upstream;
mod wire;

pub use config::ConfigTarget;
pub use cursor::CursorTarget;
pub use headers::HeadersTarget;
pub use jsonrpc::JsonRpcTarget;
pub use token::TokenTarget;
pub use upstream::UpstreamTarget;

/// A fuzz target.
pub trait Target {
    /// Folder of its inputs in `fuzz/corpus`, and its name in `scripts/fuzz`.
    const NAME: &'static str;

    fn start() -> Self;

    /// Processes one input; panics if a rule is violated.
    fn run(&mut self, input: &[u8]);
}
