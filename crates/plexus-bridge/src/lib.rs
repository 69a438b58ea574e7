//! Files of other agents: their configuration and their instructions.

pub mod document;
