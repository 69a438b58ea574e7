//! Shared infrastructure of every Plexus process: configuration, the registry of environment variables, logs,
//! metrics and traces, supervised tasks, a clock, secrets, private files.
//!
//! Clock and environment are always passed in, so that tests control both.

pub mod allowed_commands;
pub mod backoff;
pub mod clock;
pub mod config;
pub mod credential;
pub mod env;
pub mod findings;
pub mod foreign_text;
pub mod glob;
pub mod hex;
mod in_place;
pub mod json_schema;
pub mod metrics;
pub mod private_file;
pub mod process;
mod quota;
pub mod reference;
pub mod shell;
mod supervisor;
pub mod syntax;
pub mod telemetry;
pub mod trace;

pub use clock::Clock;
pub use config::{Config, ConfigError, Durability, LiveConfig};
pub use env::Environment;
pub use in_place::in_place;
pub use metrics::Metrics;
pub use quota::{Quota, QuotaSlot};
pub use secrecy::{ExposeSecret, SecretString as Secret};
pub use supervisor::{Drained, RunToCompletion, Stage, Supervisor};
pub use trace::TraceContext;
