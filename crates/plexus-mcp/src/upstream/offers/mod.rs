//! What servers offer besides tools: resources and prompts.

use serde_json::{Map, Value};

/// What one server offers, as it lists it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Offer {
    pub resources: Vec<Map<String, Value>>,
    pub templates: Vec<Map<String, Value>>,
    pub prompts: Vec<Map<String, Value>>,
    pub completions: bool,
    pub subscribe: bool,
}

/// What all servers offer that one caller sees.
#[derive(Debug, Default)]
pub struct Offers {}
