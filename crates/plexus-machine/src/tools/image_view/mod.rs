//! `image_view`: a picture of the machine or of the network, for a model to look at.
//!
//! Every picture is decoded, also one that is passed on as it is: what is shown is a picture and not what a name or a
//! server says is one. It is never larger than a result and a frame carry. How many are fetched and decoded at once is
//! bounded, and so is what each may take.

mod args;
mod kind;
mod picture;
mod source;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plexus_mcp::http_client::Fetcher;
use plexus_proto::ErrorCode;
use plexus_proto::api::ToolAnnotations;
use plexus_tools::{
    Access, CallError, ForeignOutput, Outcome, RawJson, ToolContext, ToolOutput, ToolSpec, TypedTool,
};
use serde_json::json;
use serde_json::value::to_raw_value;
use tokio::sync::Semaphore;

use crate::Machine;
use crate::files::Files;
use args::{ALIASES, Args, Output};
use picture::{Shown, Unseen};
use source::Source;

const NAME: &str = "image_view";
/// The longest edge that models are shown without being scaled down once more.
const MAX_EDGE: u32 = 1568;
/// Pictures that are decoded at once: each takes up to a few hundred megabytes.
const DECODED: usize = 2;
/// Pictures that are fetched at once.
const FETCHED: usize = 8;
/// For a picture on the network, redirects included.
const PATIENCE: Duration = Duration::from_secs(20);
/// For all of it.
const DEADLINE: Duration = Duration::from_secs(60);
/// Bytes of a picture on the network.
const MAX_FETCHED: usize = 16 << 20;

/// Changes nothing, and may ask a server of anybody.
const LOOK: Access = Access {
    annotations: ToolAnnotations { open_world_hint: true, ..Access::READ.annotations },
    ..Access::READ
};

#[derive(Debug)]
pub(super) struct ImageView {
    machine: Machine,
    fetcher: Fetcher,
    fetching: Semaphore,
    decoding: Arc<Semaphore>,
}

/// Everything but the schemas.
pub(super) fn spec() -> ToolSpec {
    let spec = ToolSpec::node(
        NAME,
        "Image view",
        "Shows a picture: a file of the machine (`path`) or one on the web (`url`). PNG, JPEG, WebP, GIF and BMP; of an \
         animation the first frame. It is turned upright and scaled down to `max_edge`; to see more of a large one, crop \
         it on the machine first.",
        LOOK,
    );
    ToolSpec { deadline: DEADLINE, ..spec.with_aliases(ALIASES) }
}

impl ImageView {
    pub(super) fn new(machine: &Machine) -> Self {
        Self {
            machine: machine.clone(),
            fetcher: Fetcher::new(PATIENCE, MAX_FETCHED, source::REMEDY),
            fetching: Semaphore::new(FETCHED),
            decoding: Arc::new(Semaphore::new(DECODED)),
        }
    }

    async fn look(&self, source: Source, max_edge: u32) -> Result<(Shown, Option<String>), CallError> {
        let fetched = match &source {
            Source::Url(url) => {
                let policy = self.machine.policy.now();
                let _turn = self.fetching.acquire().await.map_err(|_| stopped())?;
                Some(source::fetch(&self.fetcher, policy.images, url).await?)
            }
            Source::Path(_) => None,
        };
        // Goes with the work, which nothing stops once it has begun.
        let turn = self.decoding.clone().acquire_owned().await.map_err(|_| stopped())?;
        let files = Files::of(&self.machine);
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let (bytes, path) = match (fetched, &source) {
                (Some(bytes), _) => (Vec::from(bytes), None),
                (None, Source::Path(given) | Source::Url(given)) => {
                    source::read(&files, given).map(|(bytes, path)| (bytes, Some(path)))?
                }
            };
            let shown = picture::show(bytes, max_edge).map_err(refused)?;
            Ok((shown, path))
        });
        // A decoder that gives up on a file in the hard way takes nothing else with it.
        work.await.unwrap_or_else(|_| Err(refused(Unseen::Broken("its decoder gave up".to_owned()))))
    }
}

impl TypedTool for ImageView {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec()
    }

    async fn run(&self, _: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let max_edge = args.max_edge.unwrap_or(MAX_EDGE);
        let (shown, path) = self.look(args.source()?, max_edge).await?;
        let output = Output::new(&shown, path);
        let content = json!([
            { "type": "image", "data": STANDARD.encode(&shown.bytes), "mimeType": shown.format.mime() },
            { "type": "text", "text": output.text() },
        ]);
        let raw = |value| to_raw_value(value).map(|raw| RawJson::of(&raw)).map_err(|_| stopped());
        let structured = serde_json::to_value(&output).map_err(|_| stopped())?;
        Ok(Outcome::Ready(ToolOutput::Foreign(ForeignOutput {
            content: raw(&content)?,
            structured: Some(raw(&structured)?),
            is_error: false,
            meta: None,
            lacking: None,
        })))
    }
}

fn stopped() -> CallError {
    CallError::new(ErrorCode::Internal, "the picture could not be looked at").hint("Try again.")
}

fn refused(why: Unseen) -> CallError {
    let (code, hint) = match &why {
        Unseen::Not(kind) => (ErrorCode::InvalidArguments, kind.hint()),
        Unseen::TooLarge { .. } => (
            ErrorCode::TooLarge,
            "Scale it down or crop a part of it on the machine, such as with ImageMagick, and look at that.",
        ),
        Unseen::Broken(_) => (ErrorCode::ToolFailed, "The file is damaged, or not all of it is there yet."),
    };
    CallError::new(code, why.to_string()).hint(hint)
}
