//! The published revisions and their features.

use std::fmt;

use plexus_tools::Capabilities;

/// A revision of the session era.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
}

/// The stateless revision.
pub const MODERN: &str = "2026-07-28";

/// Every revision this server speaks, newest first.
pub const SUPPORTED: [&str; 5] = [MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

impl Version {
    /// The revision for a client that requests an unknown one.
    pub const LATEST: Self = Self::V2025_11_25;

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "2024-11-05" => Some(Self::V2024_11_05),
            "2025-03-26" => Some(Self::V2025_03_26),
            "2025-06-18" => Some(Self::V2025_06_18),
            "2025-11-25" => Some(Self::V2025_11_25),
            _ => None,
        }
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
        }
    }

    /// Whether a body may contain several messages. 2024-11-05 allows it through JSON-RPC.
    #[must_use]
    pub fn has_batches(self) -> bool {
        self <= Self::V2025_03_26
    }

    /// Whether a stream begins with an event that has an id but no data, so that a client can resume from the start.
    pub(crate) fn has_priming_event(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// The client's capabilities that exist in its revision.
    pub(crate) fn supported(self, declared: Capabilities) -> Capabilities {
        let newest = self >= Self::V2025_11_25;
        Capabilities {
            form: declared.form && self >= Self::V2025_06_18,
            url: declared.url && newest,
            sampling_tools: declared.sampling_tools && newest,
            sampling_context: declared.sampling_context && newest,
            tasks: false,
            ..declared
        }
    }

    pub(crate) fn features(self) -> Features {
        Features {
            annotations: self >= Self::V2025_03_26,
            structured: self >= Self::V2025_06_18,
            non_object_data: false,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The value of the `MCP-Protocol-Version` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Era {
    Session(Version),
    Modern,
    Unknown(String),
}

impl Era {
    pub(crate) fn parse(text: &str) -> Self {
        match Version::parse(text) {
            Some(version) => Self::Session(version),
            None if text == MODERN => Self::Modern,
            None => Self::Unknown(text.to_owned()),
        }
    }
}

/// The revision of a request's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Session(Version),
    Modern,
}

impl Dialect {
    pub(crate) fn features(self) -> Features {
        match self {
            Self::Session(version) => version.features(),
            Self::Modern => Features::ALL,
        }
    }
}

/// Members of tools and results that depend on the revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Features {
    pub(crate) annotations: bool,
    /// Titles, output schemas and structured results.
    pub(crate) structured: bool,
    /// Structured results, and their schemas, other than objects. Clients of the session era reject a whole list or
    /// result because of one.
    pub(crate) non_object_data: bool,
}

impl Features {
    pub(crate) const ALL: Self = Self { annotations: true, structured: true, non_object_data: true };
}
