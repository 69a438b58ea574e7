//! A connection, and the functions that run statements on it.
//!
//! Values and rows each have one small type, so that a statement and its mapping are written once for all
//! databases.

use std::{fmt, mem};

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Database, Decode, Encode, Postgres, Row as _, SqlStr, Sqlite, Type};

use crate::StoreError;
use crate::dialect::Connection;

/// One connection. A reader's connection rejects writes.
pub struct Conn(pub(crate) Connection);

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Conn")
    }
}

/// A bound value. Missing values are typed too, as PostgreSQL requires.
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

/// Statement text: a constant, or composed of constants. Never contains input.
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

/// Replaces U+0000, which PostgreSQL cannot store. Only for third-party names: values that must not be
/// changed silently are rejected earlier.
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
    /// Closes the connection instead of returning it to the pool.
    pub(crate) async fn close(self) -> Result<(), StoreError> {
        match self.0 {
            Connection::Sqlite(connection) => connection.close().await,
            Connection::Postgres(connection) => connection.close().await,
        }
        .map_err(StoreError::query("closing the database"))
    }

    /// Runs a query and returns all rows. `doing` names the operation in errors.
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

    /// Runs a query and returns the first row.
    pub(crate) async fn row(
        &mut self,
        doing: &'static str,
        sql: impl Into<Sql>,
        values: Vec<Value>,
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(doing, sql, values).await?.into_iter().next())
    }

    /// Begins a write transaction.
    pub(crate) async fn begin(&mut self) -> Result<(), StoreError> {
        let (sql, failed) = (self.0.begin_sql(), StoreError::query("beginning a transaction"));
        match &mut self.0 {
            Connection::Sqlite(connection) => {
                sqlx::query(sql).execute(&mut **connection).await.map_err(failed)?;
            }
            // Two statements at once.
            Connection::Postgres(connection) => {
                sqlx::raw_sql(sql).execute(&mut **connection).await.map_err(failed)?;
            }
        }
        Ok(())
    }

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

/// A statement with more values than this is sent on its own, so that the text of the others recurs and is
/// compiled only once.
const MANY_VALUES: usize = 1024;

impl Conn {
    /// Runs statements in order, up to the first that fails.
    ///
    /// On SQLite they are sent to the connection's thread together, because a statement costs less than the
    /// hand-over.
    pub(crate) async fn script(
        &mut self,
        doing: &'static str,
        statements: Vec<Statement>,
    ) -> Result<(), StoreError> {
        if matches!(self.0, Connection::Postgres(_)) {
            for Statement { sql, values } in statements {
                self.execute(doing, sql, values).await?;
            }
            return Ok(());
        }
        let mut joined = Joined::default();
        for statement in statements {
            let alone = statement.values.len() > MANY_VALUES;
            if alone {
                self.run(doing, mem::take(&mut joined)).await?;
            }
            joined.add(statement);
            if alone {
                self.run(doing, mem::take(&mut joined)).await?;
            }
        }
        self.run(doing, joined).await
    }

    async fn run(&mut self, doing: &'static str, joined: Joined) -> Result<(), StoreError> {
        if !joined.sql.is_empty() {
            self.execute(doing, Sql::Built(joined.sql), joined.values).await?;
        }
        Ok(())
    }
}

/// Several statements combined into one text with one list of values.
#[derive(Default)]
struct Joined {
    sql: String,
    values: Vec<Value>,
}

impl Joined {
    /// Replaces `$3` by `?` and moves the third value to that position: SQLite resolves a named placeholder
    /// by a linear search over all names before it.
    fn add(&mut self, Statement { sql, values }: Statement) {
        let text = match &sql {
            Sql::Fixed(text) => text,
            Sql::Built(text) => text.as_str(),
        };
        let mut parts = text.split('$');
        self.sql.push_str(parts.next().unwrap_or_default());
        let before = self.values.len();
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = part.split_at(digits);
            let value = number.parse::<usize>().ok().and_then(|number| values.get(number.checked_sub(1)?));
            self.values.extend(value.cloned());
            self.sql.push('?');
            self.sql.push_str(rest);
        }
        self.sql.push(';');
        if self.values.len() == before {
            self.values.extend(values);
        }
    }
}

/// Row counts for which SQLite statements exist.
const SIZES: [usize; 5] = [1, 4, 16, 64, 256];

/// Statements for all rows of `columns` values; in each, `{rows}` is replaced by a fixed number of rows. The
/// last one is padded with NULL rows. Thus few distinct statements are compiled, regardless of the number of
/// rows.
pub(crate) fn padded_statements(sql: &'static str, values: Vec<Value>, columns: usize) -> Vec<Statement> {
    let [.., most] = SIZES;
    let mut remaining = values.into_iter();
    let mut statements = Vec::new();
    while remaining.len() > 0 {
        let rows = remaining.len().div_ceil(columns).min(most);
        let size = SIZES.into_iter().find(|size| *size >= rows).unwrap_or(most);
        let mut values: Vec<_> = remaining.by_ref().take(rows * columns).collect();
        values.resize(size * columns, Value::Int(None));
        let row = format!("({})", vec!["?"; columns].join(","));
        let sql = sql.replace("{rows}", &vec![row.as_str(); size].join(","));
        statements.push(Statement { sql: Sql::Built(sql), values });
    }
    statements
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

/// Splits `total` rows into recurring statement sizes (32, 16, 8 …), so that each size is prepared once per
/// connection instead of once per batch.
pub(crate) fn chunk_sizes(mut total: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let size = [32, 16, 8, 4, 2, 1].into_iter().find(|size| *size <= total)?;
        total -= size;
        Some(size)
    })
}
