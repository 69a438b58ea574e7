//! What the fuzz targets do with their input.
//!
//! They live here and not in `fuzz/`, so that an ordinary test replays the committed corpus, where every
//! input that once broke something stays. A target keeps its hub from one input to the next, as a hub
//! has to bear what came before. It panics when an answer is not what it must be; each says what that is.

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

/// Takes one input after the other.
pub trait Target {
    /// Folder of its inputs in `fuzz/corpus`, and what `scripts/fuzz` calls it.
    const NAME: &'static str;

    fn start() -> Self;

    /// Panics where the input breaks what must hold.
    fn run(&mut self, input: &[u8]);
}
