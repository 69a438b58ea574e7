//! The tables of an archive, each after the tables it references.

use crate::conn::{Row, Value};
use crate::{Conn, StoreError};
use serde_json::Value as Json;

use super::wrong;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Int(&'static str),
    Text(&'static str),
}

use Column::{Int, Text};

impl Column {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Int(name) | Self::Text(name) => name,
        }
    }

    pub(super) fn read(self, row: &Row, index: usize) -> Result<Json, StoreError> {
        Ok(match self {
            Self::Int(_) => row.opt_int(index)?.map_or(Json::Null, Json::from),
            Self::Text(_) => row.opt_text(index)?.map_or(Json::Null, Json::from),
        })
    }

    pub(super) fn value(self, json: Json) -> Result<Value, StoreError> {
        match (self, json) {
            (Self::Int(_), Json::Null) => Ok(Value::Int(None)),
            (Self::Text(_), Json::Null) => Ok(Value::Text(None)),
            (Self::Int(name), Json::Number(number)) => {
                let number =
                    number.as_i64().ok_or_else(|| wrong(format!("{name}: {number} is out of range")))?;
                Ok(number.into())
            }
            (Self::Text(_), Json::String(text)) => Ok(text.into()),
            (column, other) => Err(wrong(format!("{}: {other} is of another type", column.name()))),
        }
    }
}

#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    /// The first `key` columns are the key, which orders the rows.
    pub(super) columns: &'static [Column],
    key: usize,
}

impl Table {
    pub(super) fn column_names(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name()).collect();
        names.join(", ")
    }

    /// Rows after the one with this key, in order.
    pub(super) async fn page(
        &self,
        conn: &mut Conn,
        after: Option<&[Json]>,
        limit: i64,
    ) -> Result<Vec<Vec<Json>>, StoreError> {
        let key: Vec<&str> = self.columns[..self.key].iter().map(|column| column.name()).collect();
        let key = key.join(", ");
        let mut values = Vec::new();
        let mut beyond = String::new();
        if let Some(after) = after {
            for (column, json) in self.columns[..self.key].iter().zip(after) {
                values.push(column.value(json.clone())?);
            }
            let places: Vec<String> = (1..=self.key).map(|place| format!("${place}")).collect();
            beyond = format!("WHERE ({key}) > ({})", places.join(", "));
        }
        values.push(limit.into());
        let sql = format!(
            "SELECT {} FROM {} {beyond} ORDER BY {key} LIMIT ${}",
            self.column_names(),
            self.name,
            values.len()
        );
        let rows = conn.rows("copying a table", crate::conn::Sql::Built(sql), values).await?;
        rows.iter()
            .map(|row| {
                self.columns.iter().enumerate().map(|(index, column)| column.read(row, index)).collect()
            })
            .collect()
    }
}

pub(super) const TABLES: &[Table] = &[
    Table { name: "meta", key: 1, columns: &[Text("key"), Int("value")] },
    Table {
        name: "tokens",
        key: 1,
        columns: &[
            Text("jti"),
            Text("kind"),
            Text("name"),
            Text("scopes"),
            Text("profile"),
            Text("parent"),
            Int("created_at"),
            Int("expires_at"),
            Int("revoked_at"),
            Int("last_used_at"),
            Int("renew_until"),
            Text("node"),
        ],
    },
    Table {
        name: "sessions",
        key: 1,
        columns: &[
            Text("id"),
            Text("owner"),
            Text("key"),
            Text("client"),
            Int("created_at"),
            Int("updated_at"),
            Int("last_seq"),
            Int("last_todo"),
            Int("pruned_seq"),
            Text("folder"),
        ],
    },
    Table {
        name: "session_events",
        key: 1,
        columns: &[
            Int("pos"),
            Text("session_id"),
            Int("seq"),
            Int("at"),
            Text("kind"),
            Text("actor"),
            Text("payload"),
            Text("external_id"),
        ],
    },
    Table {
        name: "audit",
        key: 2,
        columns: &[
            Text("hub"),
            Int("n"),
            Int("at"),
            Text("phase"),
            Text("call_id"),
            Text("token_id"),
            Text("actor"),
            Text("session_id"),
            Text("tool"),
            Text("via"),
            Text("outcome"),
            Text("detail"),
            Text("prev_hash"),
            Text("hash"),
        ],
    },
    Table {
        name: "idempotency",
        key: 2,
        columns: &[
            Text("subject"),
            Text("key"),
            Text("request_hash"),
            Text("call_id"),
            Text("session_id"),
            Text("result"),
            Int("at"),
        ],
    },
    Table {
        name: "mcp_sessions",
        key: 1,
        columns: &[
            Text("id"),
            Text("owner"),
            Text("version"),
            Text("client"),
            Text("capabilities"),
            Text("log_level"),
            Int("created_at"),
        ],
    },
    Table {
        name: "mcp_tasks",
        key: 1,
        columns: &[
            Text("id"),
            Text("owner"),
            Text("hub"),
            Text("call_id"),
            Text("tool"),
            Text("status"),
            Text("status_message"),
            Text("payload"),
            Int("created_at"),
            Int("updated_at"),
            Int("expires_at"),
        ],
    },
    Table {
        name: "todos",
        key: 2,
        columns: &[
            Text("session_id"),
            Int("id"),
            Text("text"),
            Text("status"),
            Int("created_at"),
            Int("updated_at"),
        ],
    },
    Table {
        name: "scratchpad",
        key: 2,
        columns: &[Text("session_id"), Text("section"), Text("content"), Int("bytes"), Int("updated_at")],
    },
    Table {
        name: "upstream_pins",
        key: 2,
        columns: &[
            Text("server"),
            Text("tool"),
            Text("hash"),
            Text("definition"),
            Text("state"),
            Text("decided_by"),
            Int("decided_at"),
        ],
    },
    Table {
        name: "upstream_credentials",
        key: 2,
        columns: &[Text("server"), Text("field"), Text("sealed"), Int("updated_at")],
    },
    Table {
        name: "nodes",
        key: 1,
        columns: &[
            Text("id"),
            Text("name"),
            Text("labels"),
            Text("enrolled_by"),
            Text("created_by"),
            Int("created_at"),
            Int("draining"),
            Int("epoch"),
            Text("about"),
            Int("last_seen_at"),
        ],
    },
    Table {
        name: "node_invites",
        key: 1,
        columns: &[
            Text("code_hash"),
            Text("node_id"),
            Text("name"),
            Text("labels"),
            Int("rejoin"),
            Text("token_id"),
            Text("created_by"),
            Int("created_at"),
            Int("expires_at"),
        ],
    },
    Table {
        name: "node_certificate_bars",
        key: 1,
        columns: &[Text("name"), Text("node_id"), Int("barred_at")],
    },
    Table {
        name: "node_calls",
        key: 1,
        columns: &[
            Text("call_id"),
            Text("node_id"),
            Text("store_id"),
            Text("state"),
            Text("subject"),
            Text("profile"),
            Text("token_id"),
            Text("session_id"),
            Text("tool"),
            Text("arguments"),
            Text("idempotency_key"),
            Text("request_hash"),
            Text("via"),
            Int("deadline_at"),
            Int("queued_until"),
            Int("created_at"),
        ],
    },
    Table {
        name: "held_calls",
        key: 1,
        columns: &[
            Text("call_id"),
            Text("tool"),
            Text("subject"),
            Text("state"),
            Text("result"),
            Int("accepted_at"),
        ],
    },
];
