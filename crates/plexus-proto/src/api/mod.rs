//! REST types of `/api/v1`, one file per resource.

mod audit;
mod config;
mod key;
mod session;
mod status;
mod token;
mod tool;

use serde::{Deserialize, Serialize};

pub use audit::{AuditCall, AuditEntry, AuditHead, AuditPhase, AuditProblem, AuditReport, ProblemKind};
pub use config::ConfigSetting;
pub use key::{Key, KeyState, RotateKeysParams, RotatedKey};
pub use session::{Session, SessionDetail};
pub use status::{AuditStatus, Status};
pub use token::{
    CreateTokenParams, CreatedToken, RotateTokenParams, Token, TokenDetail, TokenKind, TokenState,
};
pub use tool::{CallToolParams, CallToolResponse, Tool, ToolAction, ToolAnnotations};

/// Every list: the items and, when there are more, the cursor of the next page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}
