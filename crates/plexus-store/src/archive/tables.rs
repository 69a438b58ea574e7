//! The tables of an archive, each after the tables it references.
//!
//! They are read from the schema, so that a new table or column is archived without an entry here.

use crate::conn::{Row, Value};
use crate::{Conn, StoreError, dialect};
use serde_json::Value as Json;

use super::wrong;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Column {
    Int(String),
    Text(String),
}

impl Column {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Int(name) | Self::Text(name) => name,
        }
    }

    pub(super) fn read(&self, row: &Row, index: usize) -> Result<Json, StoreError> {
        Ok(match self {
            Self::Int(_) => row.opt_int(index)?.map_or(Json::Null, Json::from),
            Self::Text(_) => row.opt_text(index)?.map_or(Json::Null, Json::from),
        })
    }

    pub(super) fn value(&self, json: Json) -> Result<Value, StoreError> {
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
    /// The first `key` columns are the primary key, which orders the rows.
    pub(super) columns: Vec<Column>,
    key: usize,
}

/// All tables of the current schema, in the order of the migrations that create them.
pub(super) async fn tables(conn: &mut Conn) -> Result<Vec<Table>, StoreError> {
    let sql = conn.0.columns_sql();
    let mut tables = Vec::new();
    for name in dialect::created_tables() {
        let rows = conn.rows("reading the schema", sql, vec![name.into()]).await?;
        let mut columns = Vec::with_capacity(rows.len());
        for row in &rows {
            let (column, is_int) = (row.text(0)?, row.int(1)? != 0);
            let column = if is_int { Column::Int(column) } else { Column::Text(column) };
            columns.push((row.int(2)?, column));
        }
        let key = columns.iter().filter(|(position, _)| *position > 0).count();
        // A stable sort: the key in its own order, then the other columns in the order of the table.
        columns.sort_by_key(|(position, _)| if *position > 0 { *position } else { i64::MAX });
        tables.push(Table { name, columns: columns.into_iter().map(|(_, column)| column).collect(), key });
    }
    Ok(tables)
}

impl Table {
    pub(super) fn column_names(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(Column::name).collect();
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
            let parameters: Vec<String> = (1..=self.key).map(|index| format!("${index}")).collect();
            beyond = format!("WHERE ({key}) > ({})", parameters.join(", "));
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
