//! A connection, and the few ways a statement is run on it.
//!
//! Values and rows have one small type each, so that a statement and its mapping are written once
//! for all databases.

use std::fmt;

use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Row as _, SqlStr};

use crate::StoreError;
use crate::dialect::Connection;

/// One connection. What a reader's connection is asked to write, it refuses.
pub struct Conn(pub(crate) Connection);

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Conn")
    }
}

/// A bound value.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
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
        T: for<'r> sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
    {
        match self {
            Self::Sqlite(row) => row.try_get(index).map_err(StoreError::query("reading a column")),
        }
    }
}

fn sqlite_arguments(values: Vec<Value>) -> Result<SqliteArguments, sqlx::Error> {
    use sqlx::Arguments;
    let mut arguments = SqliteArguments::default();
    arguments.reserve(values.len(), 0);
    for value in values {
        match value {
            Value::Null => Arguments::add(&mut arguments, Option::<i64>::None),
            Value::Int(value) => Arguments::add(&mut arguments, value),
            Value::Text(value) => Arguments::add(&mut arguments, value),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

impl Conn {
    /// Closes the connection instead of giving it back.
    pub(crate) async fn close(self) -> Result<(), StoreError> {
        match self.0 {
            Connection::Sqlite(connection) => {
                connection.close().await.map_err(StoreError::query("closing the database"))
            }
        }
    }

    /// All rows. `doing` names the operation in an error.
    pub(crate) async fn rows(
        &mut self,
        doing: &'static str,
        sql: impl Into<Sql>,
        values: Vec<Value>,
    ) -> Result<Vec<Row>, StoreError> {
        let sql = sql.into().into_str();
        let rows = match &mut self.0 {
            Connection::Sqlite(connection) => {
                let arguments = sqlite_arguments(values).map_err(StoreError::query(doing))?;
                sqlx::query_with(sql, arguments).fetch_all(&mut **connection).await
            }
        };
        Ok(rows.map_err(StoreError::query(doing))?.into_iter().map(Row::Sqlite).collect())
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
        match &mut self.0 {
            Connection::Sqlite(connection) => {
                let arguments = sqlite_arguments(values).map_err(StoreError::query(doing))?;
                let done = sqlx::query_with(sql, arguments).execute(&mut **connection).await;
                Ok(done.map_err(StoreError::query(doing))?.rows_affected())
            }
        }
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
        match &self.0 {
            Connection::Sqlite(_) => {
                let (sql, values) = joined(statements);
                self.execute(doing, Sql::Built(sql), values).await?;
            }
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
