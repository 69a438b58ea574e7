//! A tool of the registry that runs a program.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use plexus_kit::Environment;
use plexus_proto::ErrorCode;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::definition::Definition;
use super::run::{self, ProgramRun};
use super::{Inner, result};
use crate::{CallError, Outcome, Tool, ToolContext};

impl Inner {
    /// A tool that runs a program.
    pub(super) fn tool(&self, definition: Definition, report: Option<Report>) -> Tool {
        let spec = definition.spec();
        let runner = Arc::new(Runner {
            validator: definition.output_validator(),
            permits: Semaphore::new(definition.concurrency),
            environment: self.environment.clone(),
            definition,
            report,
        });
        Tool::custom(
            spec,
            Arc::new(move |context: ToolContext, arguments: Value| -> BoxFuture<'static, _> {
                let runner = runner.clone();
                Box::pin(async move { runner.run(&context, &arguments).await })
            }),
        )
    }
}

/// The report about a program in a trial.
pub(super) type Report = Arc<Mutex<Option<ProgramRun>>>;

/// The state of a registered tool.
struct Runner {
    definition: Definition,
    validator: Option<jsonschema::Validator>,
    permits: Semaphore,
    environment: Arc<Environment>,
    report: Option<Report>,
}

impl Runner {
    async fn run(&self, context: &ToolContext, arguments: &Value) -> Result<Outcome, CallError> {
        let definition = &self.definition;
        let permit = tokio::time::timeout(definition.timeout, self.permits.acquire()).await;
        let Ok(Ok(_place)) = permit else {
            let message = format!(
                "{} calls of {} run already, the most allowed",
                definition.concurrency, definition.name
            );
            return Err(CallError::new(ErrorCode::Overloaded, message)
                .hint("Nothing was run. Wait for one of them to end and call again."));
        };
        let (ran, written) = run::run(definition, &self.environment, arguments, &context.cancel).await;
        if let Some(report) = &self.report {
            *report.lock().unwrap_or_else(PoisonError::into_inner) = Some(ran);
        }
        let output = result::of(&definition.name, definition.output, self.validator.as_ref(), written?)?;
        Ok(Outcome::Ready(output))
    }
}
