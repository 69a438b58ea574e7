//! Images from files and servers: what is shown, and what is refused.

use std::io::Cursor;
use std::path::Path;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::routing::get;
use base64::Engine as _;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, ToolOutput};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::workbench::Workbench;

/// The bytes of an image with too many colours for a PNG.
fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let picture = RgbImage::from_fn(width, height, |x, y| {
        Rgb([(x % 256) as u8, (y % 256) as u8, ((x / 7 + y / 5) % 256) as u8])
    });
    let mut bytes = Cursor::new(Vec::new());
    DynamicImage::from(picture).write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn put(path: &Path, bytes: &[u8]) -> String {
    std::fs::write(path, bytes).unwrap();
    path.display().to_string()
}

async fn call(bench: &Workbench, arguments: Value) -> Result<ToolOutput, CallError> {
    bench.call("image_view", arguments, CancellationToken::new(), None).await
}

struct ViewedImage {
    bytes: Vec<u8>,
    mime: String,
    about: Value,
    text: String,
}

async fn view(bench: &Workbench, arguments: Value) -> ViewedImage {
    let output = call(bench, arguments).await.unwrap();
    let ToolOutput::Foreign(foreign) = &output else { panic!("no content") };
    let blocks: Vec<Value> = foreign.content.parsed().unwrap();
    assert_eq!((&blocks[0]["type"], &blocks[1]["type"]), (&json!("image"), &json!("text")));
    let data = blocks[0]["data"].as_str().unwrap();
    ViewedImage {
        bytes: base64::engine::general_purpose::STANDARD.decode(data).unwrap(),
        mime: blocks[0]["mimeType"].as_str().unwrap().to_owned(),
        about: output.structured().unwrap().into_owned(),
        text: output.text().into_owned(),
    }
}

async fn refused(bench: &Workbench, arguments: Value) -> CallError {
    let shown = arguments.to_string();
    call(bench, arguments).await.expect_err(&shown)
}

#[tokio::test]
async fn image_file_is_shown_unchanged_or_scaled_down() {
    let bench = Workbench::new().await;
    let small = picture(60, 40, ImageFormat::Png);
    let path = put(&bench.home().join("small.txt"), &small);
    let seen = view(&bench, json!({ "path": "~/small.txt" })).await;
    assert!(seen.bytes == small && seen.mime == "image/png");
    let real = std::fs::canonicalize(&path).unwrap().display().to_string();
    assert_eq!(
        seen.about,
        json!({
            "width": 60, "height": 40, "format": "png", "bytes": small.len(), "scaled": false, "path": real,
            "original": { "width": 60, "height": 40, "format": "png", "bytes": small.len(), "animated": false },
        })
    );

    let path = put(&bench.home().join("large.png"), &picture(2000, 1000, ImageFormat::Jpeg));
    let seen = view(&bench, json!({ "path": path })).await;
    assert_eq!(seen.mime, "image/jpeg");
    assert_eq!(
        (&seen.about["width"], &seen.about["height"], &seen.about["scaled"]),
        (&json!(1568), &json!(784), &json!(true))
    );
    let shown = image::load_from_memory(&seen.bytes).unwrap();
    assert_eq!((shown.width(), shown.height()), (1568, 784));
    assert!(seen.text.contains("2000 × 1000") && seen.text.contains("1568 × 784"), "{}", seen.text);
    let seen = view(&bench, json!({ "path": path, "max_edge": 100 })).await;
    assert_eq!((&seen.about["width"], &seen.about["height"]), (&json!(100), &json!(50)));
}

#[tokio::test]
async fn concurrent_calls_all_get_their_image() {
    let bench = Workbench::new().await;
    let path = put(&bench.home().join("a.bmp"), &picture(300, 200, ImageFormat::Bmp));
    let calls = (0..12).map(|_| view(&bench, json!({ "path": path, "max_edge": 64 })));
    for seen in futures_util::future::join_all(calls).await {
        assert_eq!(seen.about["width"], 64);
    }
}

#[tokio::test]
async fn other_files_are_refused_with_a_hint() {
    let bench = Workbench::new().await;
    for (name, content, code, says) in [
        ("a.svg", "<svg onload='alert(1)'/>", ErrorCode::InvalidArguments, "convert it to PNG"),
        ("a.png", "<!doctype html><title>Log in</title>", ErrorCode::InvalidArguments, "web page"),
        ("b.png", "%PDF-1.4", ErrorCode::InvalidArguments, "pdftoppm"),
        ("c.png", "", ErrorCode::InvalidArguments, "empty"),
        ("d.jpg", "plain text", ErrorCode::InvalidArguments, "not an image"),
        ("e.png", "\u{89}PNG", ErrorCode::InvalidArguments, "not an image"),
        ("f.gif", "GIF89a", ErrorCode::ToolFailed, "damaged"),
    ] {
        let path = put(&bench.home().join(name), content.as_bytes());
        let error = refused(&bench, json!({ "path": path })).await;
        assert_eq!(error.code, code, "{name}: {}", error.text());
        assert!(error.text().contains(says), "{name}: {}", error.text());
    }
    for (arguments, says) in [
        (json!({}), "`path` or `url`"),
        (json!({ "path": "/a", "url": "https://a.example/" }), "not both"),
        (json!({ "path": "~user/a.png" }), "full path"),
        (json!({ "path": "/a\u{0}.png" }), "not a valid path"),
        (json!({ "path": "/a.png", "max_edge": 0 }), "max_edge"),
        (json!({ "path": "/a.png", "max_edge": 100_000 }), "max_edge"),
        (json!({ "picture": "/a.png" }), "unknown field"),
    ] {
        let error = refused(&bench, arguments.clone()).await;
        assert_eq!(error.code, ErrorCode::InvalidArguments, "{arguments}");
        assert!(error.text().contains(says), "{arguments}: {}", error.text());
    }
}

#[tokio::test]
async fn no_path_reaches_denied_files() {
    let bench = Workbench::new().await;
    let home = bench.home();
    let bytes = picture(20, 20, ImageFormat::Png);
    std::fs::create_dir(home.join(".ssh")).unwrap();
    let key = put(&home.join(".ssh/photo.png"), &bytes);
    std::os::unix::fs::symlink(&key, home.join("link.png")).unwrap();
    std::os::unix::fs::symlink(home.join(".ssh"), home.join("folder")).unwrap();
    std::fs::hard_link(&key, home.join("hard.png")).unwrap();
    put(&bench.folder().join("own.png"), &bytes);
    let own = bench.folder().join("own.png").display().to_string();
    let ssh = |rest: &str| format!("{}/{rest}", home.display());
    for path in [
        key,
        ssh("link.png"),
        ssh("folder/photo.png"),
        ssh("hard.png"),
        ssh("x/../.ssh/photo.png").replace("x/../", "./"),
        "~/.ssh/photo.png".to_owned(),
        own,
    ] {
        let error = refused(&bench, json!({ "path": path })).await;
        assert_eq!(error.code, ErrorCode::Forbidden, "{path}: {}", error.text());
    }
    let pipe = home.join("pipe.png");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink("circle.png", home.join("circle.png")).unwrap();
    for path in [
        home.display().to_string(),
        pipe.display().to_string(),
        ssh("circle.png"),
        "/dev/zero".to_owned(),
        "/proc/self/exe".to_owned(),
        "/proc/self/environ".to_owned(),
        "/sys/kernel/vmcoreinfo".to_owned(),
        "/nowhere/a.png".to_owned(),
    ] {
        let error = refused(&bench, json!({ "path": path })).await;
        let codes = [ErrorCode::InvalidArguments, ErrorCode::NotFound, ErrorCode::Forbidden];
        assert!(codes.contains(&error.code), "{path}: {:?} {}", error.code, error.text());
        assert!(!error.text().contains("decoded"), "{path}: {}", error.text());
    }
    let sparse = std::fs::File::create(home.join("sparse.png")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let error = refused(&bench, json!({ "path": "~/sparse.png" })).await;
    assert_eq!(error.code, ErrorCode::TooLarge);
}

#[tokio::test]
async fn policy_decides_which_files_can_be_viewed() {
    let bench = Workbench::new().await;
    let open = bench.home().join("open");
    std::fs::create_dir(&open).unwrap();
    let bytes = picture(20, 20, ImageFormat::Png);
    let (inside, outside) = (put(&open.join("a.png"), &bytes), put(&bench.home().join("b.png"), &bytes));
    let policy = format!("[files]\nread = [{open:?}]\nwrite = []\n");
    std::fs::write(bench.folder().join("node.toml"), policy).unwrap();
    assert_eq!(view(&bench, json!({ "path": inside })).await.about["width"], 20);
    assert_eq!(refused(&bench, json!({ "path": outside })).await.code, ErrorCode::Forbidden);
}

/// Serves images and other content.
async fn server(tasks: &mut JoinSet<()>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let to = |location: &'static str| get(move || async move { (StatusCode::FOUND, [(LOCATION, location)]) });
    let endless = || async {
        let piece = || Ok::<_, std::io::Error>(axum::body::Bytes::from_static(&[7; 65536]));
        Body::from_stream(futures_util::stream::repeat_with(piece))
    };
    let html = || async { ([(CONTENT_TYPE, "image/png")], "<html>Please log in</html>") };
    let svg = || async { ([(CONTENT_TYPE, "image/svg+xml")], "<svg/>") };
    // The declared type is wrong; the content counts.
    let real = || async { ([(CONTENT_TYPE, "text/html")], picture(2000, 500, ImageFormat::WebP)) };
    let router = Router::new()
        .route("/picture", get(real))
        .route("/moved", to("/picture"))
        .route("/metadata", to("http://169.254.169.254/latest/meta-data/"))
        .route("/file", to("file:///etc/passwd"))
        .route("/round", to("/round"))
        .route("/page", get(html))
        .route("/svg", get(svg))
        .route("/endless", get(endless));
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}")
}

#[tokio::test]
async fn private_networks_are_fetched_only_if_the_owner_allows_it() {
    let (bench, mut tasks) = (Workbench::new().await, JoinSet::new());
    let at = server(&mut tasks).await;
    let port = at.rsplit(':').next().unwrap();
    let urls = [
        format!("{at}/picture"),
        format!("http://localhost:{port}/picture"),
        format!("http://[::ffff:127.0.0.1]:{port}/picture"),
        format!("http://0x7f.1:{port}/picture"),
        "http://10.1.2.3/".to_owned(),
        "http://192.168.0.1/".to_owned(),
        "https://[fd00::1]/".to_owned(),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
    ];
    for url in urls {
        let error = refused(&bench, json!({ "url": url })).await;
        assert_eq!(error.code, ErrorCode::Forbidden, "{url}: {}", error.text());
        assert!(error.text().contains("is not contacted"), "{url}: {}", error.text());
    }
    for url in [
        "file:///etc/passwd",
        "data:image/png;base64,AAAA",
        "ftp://example.net/a.png",
        "http://a:b@example.net/",
        "a.png",
    ] {
        let error = refused(&bench, json!({ "url": url })).await;
        assert_eq!(error.code, ErrorCode::InvalidArguments, "{url}: {}", error.text());
    }

    let policy = bench.folder().join("node.toml");
    std::fs::write(&policy, "[images]\nprivate_networks = true\n").unwrap();
    for path in ["picture", "moved"] {
        let seen = view(&bench, json!({ "url": format!("{at}/{path}") })).await;
        assert_eq!((&seen.about["original"]["format"], &seen.about["width"]), (&json!("webp"), &json!(1568)));
        assert!(seen.about.get("path").is_none());
    }
    for (path, code, says) in [
        ("metadata", ErrorCode::Forbidden, "metadata service"),
        ("file", ErrorCode::Forbidden, "`file`"),
        ("round", ErrorCode::ToolFailed, "redirects"),
        ("page", ErrorCode::InvalidArguments, "web page"),
        ("svg", ErrorCode::InvalidArguments, "SVG"),
        ("endless", ErrorCode::TooLarge, "longer than"),
        ("nothing", ErrorCode::ToolFailed, "404"),
    ] {
        let error = refused(&bench, json!({ "url": format!("{at}/{path}?key=hidden") })).await;
        assert_eq!(error.code, code, "{path}: {}", error.text());
        assert!(error.text().contains(says) && !error.text().contains("hidden"), "{path}: {}", error.text());
    }

    std::fs::write(&policy, "[images]\nurls = false\nprivate_networks = true\n").unwrap();
    let error = refused(&bench, json!({ "url": format!("{at}/picture") })).await;
    assert_eq!(error.code, ErrorCode::Forbidden);
    assert!(error.text().contains("node.toml"), "{}", error.text());
}
