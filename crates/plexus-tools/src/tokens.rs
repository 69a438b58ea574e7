//! Counts the tokens of texts.
//!
//! The loaded vocabulary takes about 25 MB, more than the rest of an idle hub. So it is loaded for a count and dropped
//! afterwards, by one thread at a time, and counts are cached.

use aws_lc_rs::digest;
use moka::sync::Cache;
use plexus_proto::ErrorCode;
use tokio::sync::Semaphore;

use crate::CallError;

/// The vocabulary of OpenAI's models since GPT-4o.
pub const TOKENIZER: &str = "o200k_base";
/// The number of cached counts, about 100 bytes each.
const MAX_CACHED: u64 = 20_000;
/// The most bytes of all texts of one request; counting runs at some megabytes per second.
const MAX_BYTES: usize = 32 << 20;

#[derive(Debug)]
pub struct TokenCounter {
    cached: Cache<Digest, u64>,
    /// Held while the vocabulary is loaded. Waiting requests find many of their texts cached.
    counting: Semaphore,
}

type Digest = [u8; digest::SHA256_OUTPUT_LEN];

impl Default for TokenCounter {
    fn default() -> Self {
        Self { cached: Cache::new(MAX_CACHED), counting: Semaphore::new(1) }
    }
}

impl TokenCounter {
    /// Tokens of each text.
    pub async fn count(&self, texts: Vec<String>) -> Result<Vec<u64>, CallError> {
        let size: usize = texts.iter().map(String::len).sum();
        if size > MAX_BYTES {
            let message = format!("the texts to count have {size} bytes; the limit is {MAX_BYTES}");
            return Err(CallError::new(ErrorCode::TooLarge, message).hint("Ask for the cost of a profile."));
        }
        let digests: Vec<Digest> = texts.iter().map(|text| digest_of(text)).collect();
        if let Some(counts) = self.cached(&digests) {
            return Ok(counts);
        }
        // The semaphore is never closed.
        let _one_at_a_time = self.counting.acquire().await.map_err(|error| failed(&error))?;
        if let Some(counts) = self.cached(&digests) {
            return Ok(counts);
        }
        let counted = tokio::task::spawn_blocking(move || {
            let vocabulary = tiktoken::encoding::o200k_base();
            // Special tokens are not interpreted: `<|endoftext|>` in a description is text.
            texts.iter().map(|text| vocabulary.count(text) as u64).collect::<Vec<_>>()
        });
        let counts = counted.await.map_err(|error| failed(&error))?;
        for (digest, count) in digests.into_iter().zip(&counts) {
            self.cached.insert(digest, *count);
        }
        Ok(counts)
    }

    /// The cached counts, if all texts are cached.
    fn cached(&self, digests: &[Digest]) -> Option<Vec<u64>> {
        digests.iter().map(|digest| self.cached.get(digest)).collect()
    }
}

fn digest_of(text: &str) -> Digest {
    let mut bytes = Digest::default();
    bytes.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
    bytes
}

fn failed(error: &dyn std::error::Error) -> CallError {
    tracing::error!(%error, "cannot count tokens");
    CallError::new(ErrorCode::Internal, "cannot count tokens").hint("The hub's log has the details.")
}

#[cfg(test)]
mod tests;
