//! An MCP server of the session era as a short shell script, for deliberate misbehaviour.
//!
//! It is sequential: it answers nothing while a call runs.

use std::path::{Path, PathBuf};

use plexus_testkit::TestHub;
use serde_json::{Value, json};

/// `$line` is the request and `$id` its id; `reply` answers it.
const HEAD: &str = r#"
reply() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
say() { reply "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
while IFS= read -r line; do
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case "$line" in
    *'"method":"initialize"'*)
      reply '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"script","version":"1"},"instructions":"Words of the script."}' ;;
    *'"method":"notifications/'*) ;;
    *'"method":"ping"'*) reply '"result":{}' ;;
"#;

const TAIL: &str = r#"
    *) reply '"error":{"code":-32601,"message":"no such method"}' ;;
  esac
done
"#;

/// A server in shell: code that runs before anything is read, and cases of `$line`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    pub(crate) before: String,
    /// Tools, each an object.
    pub(crate) tools: Vec<Value>,
    /// Shell code that answers `tools/call`.
    pub(crate) call: String,
}

impl Script {
    /// With one tool `work`, whose calls this code answers.
    pub(crate) fn answering(call: &str) -> Self {
        let tools = vec![json!({ "name": "work", "inputSchema": { "type": "object" } })];
        Self { before: String::new(), tools, call: call.to_owned() }
    }

    pub(crate) fn before(self, before: &str) -> Self {
        Self { before: before.to_owned(), ..self }
    }

    /// Annotates its tools as idempotent.
    pub(crate) fn idempotent(mut self) -> Self {
        for tool in &mut self.tools {
            tool["annotations"] = json!({ "idempotentHint": true });
        }
        self
    }

    /// Writes the script next to the hub's data, and returns the server's file. In the script, `$dir` is a
    /// scratch folder.
    pub(crate) fn install(&self, hub: &TestHub, name: &str) -> Value {
        let dir = folder(hub, name);
        std::fs::create_dir_all(&dir).unwrap();
        let tools = Value::from(self.tools.clone()).to_string();
        let text = format!(
            "dir={dir}\n{before}\n{HEAD}\n\
             *'\"method\":\"tools/list\"'*) reply '\"result\":{{\"tools\":{tools}}}' ;;\n\
             *'\"method\":\"tools/call\"'*) {call} ;;\n{TAIL}",
            dir = dir.display(),
            before = self.before,
            call = self.call,
        );
        let file = dir.join("server.sh");
        std::fs::write(&file, text).unwrap();
        json!({ "command": "/bin/sh", "args": [file] })
    }
}

/// The scratch folder of a server's script.
pub(crate) fn folder(hub: &TestHub, name: &str) -> PathBuf {
    hub.data_dir().join("scripts").join(name)
}

pub(crate) fn touch(path: &Path) {
    std::fs::write(path, "").unwrap();
}
