//! A connection, and the few ways a statement is run on it.
//!
//! Values and rows have one small type each, so that a statement and its mapping are written once
//! for all databases.

use std::fmt;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Database, Decode, Encode, Postgres, Row as _, SqlStr, Sqlite, Type};

use crate::StoreError;
use crate::dialect::Connection;

/// One connection. What a reader's connection is asked to write, it refuses.
pub struct Conn(pub(crate) Connection);

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Conn")
    }
}

/// A bound value. A missing one has a type too: PostgreSQL wants to know.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Int(Option<i64>),
    Text(Option<String>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Value {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(Some(value))
    }
}

impl From<Option<String>> for Value {
    fn from(value: Option<String>) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(Some(value.to_owned()))
    }
}

impl From<Option<&str>> for Value {
    fn from(value: Option<&str>) -> Self {
        Self::Text(value.map(str::to_owned))
    }
}

/// Statement text: fixed, or put together from fixed parts by us. Never from input.
pub(crate) enum Sql {
    Fixed(&'static str),
    Built(String),
}

impl From<&'static str> for Sql {
    fn from(sql: &'static str) -> Self {
        Self::Fixed(sql)
    }
}

impl Sql {
    fn into_str(self) -> SqlStr {
        match self {
            Self::Fixed(sql) => SqlStr::from_static(sql),
            Self::Built(sql) => sqlx::SqlSafeStr::into_sql_str(AssertSqlSafe(sql)),
        }
    }
}

/// A row, read by position.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    pub(crate) fn int(&self, index: usize) -> Result<i64, StoreError> {
        self.get(index)
    }

    pub(crate) fn text(&self, index: usize) -> Result<String, StoreError> {
        self.get(index)
    }

    pub(crate) fn opt_int(&self, index: usize) -> Result<Option<i64>, StoreError> {
        self.get(index)
    }

    pub(crate) fn opt_text(&self, index: usize) -> Result<Option<String>, StoreError> {
        self.get(index)
    }

    fn get<T>(&self, index: usize) -> Result<T, StoreError>
    where
        T: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>,
    {
        match self {
            Self::Sqlite(row) => row.try_get(index),
            Self::Postgres(row) => row.try_get(index),
        }
        .map_err(StoreError::query("reading a column"))
    }
}

/// Text as every database can hold it: PostgreSQL knows no U+0000. What must not be changed in silence
/// is refused before it comes here; this is for names that others chose.
pub(crate) fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text }
}

fn arguments<A>(doing: &'static str, values: Vec<Value>) -> Result<A, StoreError>
where
    A: Arguments,
    Option<i64>: for<'q> Encode<'q, A::Database> + Type<A::Database>,
    Option<String>: for<'q> Encode<'q, A::Database> + Type<A::Database>,
    A::Database: Database<Arguments = A>,
{
    let mut arguments = A::default();
    arguments.reserve(values.len(), 0);
    for value in values {
        match value {
            Value::Int(value) => arguments.add(value),
            Value::Text(value) => arguments.add(value.map(storable)),
        }
        .map_err(|error| StoreError::query(doing)(sqlx::Error::Encode(error)))?;
    }
    Ok(arguments)
}

impl Conn {
    /// Closes the connection instead of giving it back.
    pub(crate) async fn close(self) -> Result<(), StoreError> {
        match self.0 {
            Connection::Sqlite(connection) => connection.close().await,
            Connection::Postgres(connection) => connection.close().await,
        }
        .map_err(StoreError::query("closing the database"))
    }

    /// All rows. `doing` names the operation in an error.
    pub(crate) async fn rows(
        &mut self,
        doing: &'static str,
        sql: impl Into<Sql>,
        values: Vec<Value>,
    ) -> Result<Vec<Row>, StoreError> {
        let sql = sql.into().into_str();
        let failed = StoreError::query(doing);
        Ok(match &mut self.0 {
            Connection::Sqlite(connection) => {
                let query = sqlx::query_with(sql, arguments::<SqliteArguments>(doing, values)?);
                let rows = query.fetch_all(&mut **connection).await.map_err(failed)?;
                rows.into_iter().map(Row::Sqlite).collect()
            }
            Connection::Postgres(connection) => {
                let query = sqlx::query_with(sql, arguments::<PgArguments>(doing, values)?);
                let rows = query.fetch_all(&mut **connection).await.map_err(failed)?;
                rows.into_iter().map(Row::Postgres).collect()
            }
        })
    }

    /// The first row, if there is one.
    pub(crate) async fn row(
        &mut self,
        doing: &'static str,
        sql: impl Into<Sql>,
        values: Vec<Value>,
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(doing, sql, values).await?.into_iter().next())
    }

    /// Number of rows changed.
    pub(crate) async fn execute(
        &mut self,
        doing: &'static str,
        sql: impl Into<Sql>,
        values: Vec<Value>,
    ) -> Result<u64, StoreError> {
        let sql = sql.into().into_str();
        let failed = StoreError::query(doing);
        Ok(match &mut self.0 {
            Connection::Sqlite(connection) => {
                let query = sqlx::query_with(sql, arguments::<SqliteArguments>(doing, values)?);
                query.execute(&mut **connection).await.map_err(failed)?.rows_affected()
            }
            Connection::Postgres(connection) => {
                let query = sqlx::query_with(sql, arguments::<PgArguments>(doing, values)?);
                query.execute(&mut **connection).await.map_err(failed)?.rows_affected()
            }
        })
    }
}

/// One of several statements that are run together.
pub(crate) struct Statement {
    pub(crate) sql: Sql,
    pub(crate) values: Vec<Value>,
}

impl Statement {
    pub(crate) fn fixed(sql: &'static str) -> Self {
        Self { sql: Sql::Fixed(sql), values: Vec::new() }
    }
}

impl Conn {
    /// Runs statements one after the other, up to the first that fails.
    ///
    /// On SQLite they go to the connection's thread as one command: there, a statement costs less
    /// than the way to it.
    pub(crate) async fn script(
        &mut self,
        doing: &'static str,
        statements: Vec<Statement>,
    ) -> Result<(), StoreError> {
        if matches!(self.0, Connection::Sqlite(_)) {
            let (sql, values) = joined(statements);
            self.execute(doing, Sql::Built(sql), values).await?;
            return Ok(());
        }
        for Statement { sql, values } in statements {
            self.execute(doing, sql, values).await?;
        }
        Ok(())
    }
}

/// One text with one list of values: `$1` of a later statement becomes `$7` if six values precede it.
fn joined(statements: Vec<Statement>) -> (String, Vec<Value>) {
    let mut sql = String::new();
    let mut all: Vec<Value> = Vec::new();
    for Statement { sql: text, values } in statements {
        let text = match &text {
            Sql::Fixed(text) => text,
            Sql::Built(text) => text.as_str(),
        };
        let mut parts = text.split('$');
        sql.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = part.split_at(digits);
            let _ = fmt::Write::write_fmt(
                &mut sql,
                format_args!("${}{rest}", number.parse::<usize>().unwrap_or_default() + all.len()),
            );
        }
        sql.push(';');
        all.extend(values);
    }
    (sql, all)
}

/// Rows that one statement takes as JSON.
const JSON_ROWS: usize = 512;

/// The same statement for all rows, which it reads from JSON: `$1` is an array of arrays of `columns` values.
pub(crate) fn json_statements(sql: &'static str, values: &[Value], columns: usize) -> Vec<Statement> {
    let chunks = values.chunks(columns * JSON_ROWS);
    chunks.map(|rows| Statement { sql: sql.into(), values: vec![json_rows(rows, columns).into()] }).collect()
}

fn json_rows(values: &[Value], columns: usize) -> String {
    let mut json = Vec::with_capacity(values.len() * 64);
    for (row, values) in values.chunks(columns).enumerate() {
        json.extend(if row == 0 { b"[[" } else { b",[" });
        for (column, value) in values.iter().enumerate() {
            if column > 0 {
                json.push(b',');
            }
            // Neither a number nor a text fails to become JSON in memory.
            let _ = match value {
                Value::Int(value) => serde_json::to_writer(&mut json, value),
                Value::Text(Some(text)) if text.contains('\0') => {
                    serde_json::to_writer(&mut json, &storable(text.clone()))
                }
                Value::Text(value) => serde_json::to_writer(&mut json, value),
            };
        }
        json.push(b']');
    }
    json.extend(if values.is_empty() { b"[]".as_slice() } else { b"]" });
    // What serde_json writes is UTF-8.
    String::from_utf8(json).unwrap_or_default()
}

/// `($1,$2),($3,$4)`: placeholders for `rows` rows of `columns` values.
pub(crate) fn placeholders(rows: usize, columns: usize) -> String {
    use fmt::Write;
    let mut sql = String::with_capacity(rows * columns * 5);
    for row in 0..rows {
        sql.push_str(if row == 0 { "(" } else { ",(" });
        for column in 0..columns {
            let comma = if column == 0 { "" } else { "," };
            let _ = write!(sql, "{comma}${}", row * columns + column + 1);
        }
        sql.push(')');
    }
    sql
}

/// Splits `total` rows into statement sizes that recur (32, 16, 8 …), so that each size is prepared
/// once per connection instead of once per batch.
pub(crate) fn chunk_sizes(mut total: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let size = [32, 16, 8, 4, 2, 1].into_iter().find(|size| *size <= total)?;
        total -= size;
        Some(size)
    })
}
