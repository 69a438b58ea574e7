//! A client over the proxy's stdio, with one message per line.

use anyhow::{Context as _, Result, ensure};
use plexus_testkit::modern_meta;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

use crate::wire::Era;
use crate::workload::Workload;

pub(super) struct StdioConnection {
    era: Era,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
    /// The last answer that passed the check.
    last_valid_answer: String,
}

impl StdioConnection {
    /// Begins a conversation as a client of this era does.
    pub(super) async fn begin(era: Era, input: ChildStdin, output: ChildStdout) -> Result<Self> {
        let output = BufReader::new(output);
        let mut connection =
            Self { era, input, output, line: String::new(), last_valid_answer: String::new() };
        if era == Era::Session {
            let params = json!({
                "protocolVersion": era.version(),
                "capabilities": {},
                "clientInfo": { "name": "plexus-bench", "version": "1" },
            });
            let answer = connection.call_method("initialize", params).await?;
            ensure!(answer["result"]["protocolVersion"] == era.version(), "initialize: {answer}");
            connection.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n").await?;
        }
        Ok(connection)
    }

    async fn send(&mut self, line: &str) -> Result<()> {
        self.input.write_all(line.as_bytes()).await.context("the proxy closed its input")
    }

    /// Reads the next line.
    async fn read_line(&mut self) -> Result<()> {
        self.line.clear();
        let read = self.output.read_line(&mut self.line).await.context("cannot read the proxy's output")?;
        ensure!(read > 0, "the proxy has ended");
        Ok(())
    }

    /// A request as a line. The id is always 1, so that equal answers are equal lines.
    pub(super) fn request(&self, method: &str, mut params: Value) -> String {
        if self.era == Era::Stateless {
            params["_meta"] = modern_meta();
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        format!("{body}\n")
    }

    /// Makes a request and waits for the answer, skipping notifications.
    pub(super) async fn call_method(&mut self, method: &str, params: Value) -> Result<Value> {
        let request = self.request(method, params);
        self.send(&request).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<Value> {
        loop {
            self.read_line().await?;
            let message: Value = serde_json::from_str(&self.line).with_context(|| self.line.clone())?;
            if message["id"] == 1 {
                return Ok(message);
            }
        }
    }

    /// One prepared operation; its answer must be correct.
    pub(super) async fn call(&mut self, request: &str, workload: Workload) -> Result<()> {
        self.send(request).await?;
        self.read_line().await?;
        if self.line == self.last_valid_answer {
            return Ok(());
        }
        let mut message: Value = serde_json::from_str(&self.line).with_context(|| self.line.clone())?;
        if message["id"] != 1 {
            message = self.answer().await?;
        }
        workload.check(&message).with_context(|| self.line.clone())?;
        self.last_valid_answer.clone_from(&self.line);
        Ok(())
    }
}
