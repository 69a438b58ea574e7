//! `image_view`: shows an image of the machine or the network to a model.
//!
//! Every image is decoded, even if it is passed on unchanged, so only valid images are shown, whatever a name or a
//! server claims. The size is limited to what a result and a frame can carry. The number of concurrent fetches and
//! decodings is limited, and so are their resources.

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
use picture::{ShownImage, ViewError};
use source::Source;

const NAME: &str = "image_view";
/// The longest edge that models accept without scaling the image down again.
const MAX_EDGE: u32 = 1568;
/// The maximum number of concurrent decodings; each takes up to a few hundred megabytes.
const DECODED: usize = 2;
/// The maximum number of concurrent fetches.
const FETCHED: usize = 8;
/// The timeout of a fetch, including redirects.
const FETCH_TIMEOUT: Duration = Duration::from_secs(20);
/// The timeout of a call.
const DEADLINE: Duration = Duration::from_secs(60);
/// The maximum size of a fetched image in bytes.
const MAX_FETCHED: usize = 16 << 20;

/// Read-only, but may send a request to any server.
const POLL_INTERVAL: Access = Access {
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

/// The tool's specification without its schemas.
pub(super) fn spec() -> ToolSpec {
    let spec = ToolSpec::node(
        NAME,
        "Image view",
        "Shows an image: a file of the machine (`path`) or an image on the web (`url`). PNG, JPEG, WebP, GIF and \
         BMP; of an animation the first frame. It is rotated upright and scaled down to `max_edge`; to see more of a \
         large image, crop it on the machine first.",
        POLL_INTERVAL,
    );
    ToolSpec { deadline: DEADLINE, ..spec.with_aliases(ALIASES) }
}

impl ImageView {
    pub(super) fn new(machine: &Machine) -> Self {
        Self {
            machine: machine.clone(),
            fetcher: Fetcher::new(FETCH_TIMEOUT, MAX_FETCHED, source::REMEDY),
            fetching: Semaphore::new(FETCHED),
            decoding: Arc::new(Semaphore::new(DECODED)),
        }
    }

    async fn load(&self, source: Source, max_edge: u32) -> Result<(ShownImage, Option<String>), CallError> {
        let fetched = match &source {
            Source::Url(url) => {
                let policy = self.machine.policy.now();
                let _turn = self.fetching.acquire().await.map_err(|_| stopped())?;
                Some(source::fetch(&self.fetcher, policy.images, url).await?)
            }
            Source::Path(_) => None,
        };
        // The permit moves to the blocking task, which cannot be cancelled.
        let turn = self.decoding.clone().acquire_owned().await.map_err(|_| stopped())?;
        let files = Files::for_machine(&self.machine);
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let (bytes, path) = match (fetched, &source) {
                (Some(bytes), _) => (Vec::from(bytes), None),
                (None, Source::Path(path_or_url) | Source::Url(path_or_url)) => {
                    source::read(&files, path_or_url).map(|(bytes, path)| (bytes, Some(path)))?
                }
            };
            let shown = picture::show(bytes, max_edge).map_err(refused)?;
            Ok((shown, path))
        });
        // A panic of a decoder does not affect anything else.
        work.await.unwrap_or_else(|_| Err(refused(ViewError::Broken("the decoder failed".to_owned()))))
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
        let (shown, path) = self.load(args.source()?, max_edge).await?;
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
    CallError::new(ErrorCode::Internal, "the image could not be shown").hint("Try again.")
}

fn refused(why: ViewError) -> CallError {
    let (code, hint) = match &why {
        ViewError::Not(kind) => (ErrorCode::InvalidArguments, kind.hint()),
        ViewError::TooLarge { .. } => (
            ErrorCode::TooLarge,
            "Scale it down or crop it on the machine, for example with ImageMagick, and view the result.",
        ),
        ViewError::Broken(_) => (ErrorCode::ToolFailed, "The file is damaged or not complete yet."),
    };
    CallError::new(code, why.to_string()).hint(hint)
}
