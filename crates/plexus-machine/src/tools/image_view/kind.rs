//! What a file is by its content; its name and what a server says of it are not believed.

use image::ImageFormat;

/// A picture that can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Png,
    Jpeg,
    WebP,
    Gif,
    Bmp,
}

/// Something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Other {
    Empty,
    Svg,
    Page,
    Pdf,
    /// A picture in a format that is not decoded here.
    Picture(&'static str),
    Unknown,
}

impl Format {
    pub(super) fn of(bytes: &[u8]) -> Result<Self, Other> {
        match image::guess_format(bytes) {
            Ok(ImageFormat::Png) => Ok(Self::Png),
            Ok(ImageFormat::Jpeg) => Ok(Self::Jpeg),
            Ok(ImageFormat::WebP) => Ok(Self::WebP),
            Ok(ImageFormat::Gif) => Ok(Self::Gif),
            Ok(ImageFormat::Bmp) => Ok(Self::Bmp),
            Ok(ImageFormat::Tiff) => Err(Other::Picture("TIFF")),
            Ok(ImageFormat::Ico) => Err(Other::Picture("ICO")),
            Ok(ImageFormat::Avif) => Err(Other::Picture("AVIF")),
            _ => Err(Other::of(bytes)),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::WebP => "webp",
            Self::Gif => "gif",
            Self::Bmp => "bmp",
        }
    }

    pub(super) fn mime(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::WebP => "image/webp",
            Self::Gif => "image/gif",
            Self::Bmp => "image/bmp",
        }
    }

    /// Whether models are shown it as it is.
    pub(super) fn is_common(self) -> bool {
        self != Self::Bmp
    }
}

impl Other {
    fn of(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::Empty;
        }
        if bytes.starts_with(b"%PDF-") {
            return Self::Pdf;
        }
        if bytes.get(4..8) == Some(b"ftyp") && matches!(bytes.get(8..11), Some(b"hei" | b"hev" | b"mif")) {
            return Self::Picture("HEIC");
        }
        let start = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
        let start = String::from_utf8_lossy(&start[..start.len().min(1024)]).to_ascii_lowercase();
        match () {
            () if !start.starts_with('<') => Self::Unknown,
            () if start.starts_with("<!doctype html") || start.starts_with("<html") => Self::Page,
            () if start.contains("<svg") => Self::Svg,
            () if start.contains("<html") || start.contains("<head") => Self::Page,
            () => Self::Unknown,
        }
    }

    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::Svg => {
                "Read it as text, or turn it into a PNG on the machine first (rsvg-convert, ImageMagick)."
            }
            Self::Page => {
                "Give the URL of the picture itself. What needs a login has to be downloaded on the machine."
            }
            Self::Pdf => "Turn a page of it into a PNG on the machine first (pdftoppm -png).",
            Self::Picture(_) => "Turn it into a PNG or JPEG on the machine first, such as with ImageMagick.",
            Self::Empty | Self::Unknown => "PNG, JPEG, WebP, GIF and BMP are shown.",
        }
    }
}

impl std::fmt::Display for Other {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::Svg => f.write_str("it is an SVG drawing, which is a program that draws and no picture"),
            Self::Page => f.write_str("it is a web page and no picture"),
            Self::Pdf => f.write_str("it is a PDF document and no picture"),
            Self::Picture(format) => {
                write!(f, "it is a picture in the format {format}, which is not decoded here")
            }
            Self::Unknown => f.write_str("it is no picture that is known here"),
        }
    }
}

/// Whether a GIF has a second frame: looks for its head, and decodes nothing.
pub(super) fn gif_moves(bytes: &[u8]) -> bool {
    frames_of_gif(bytes).is_some_and(|frames| frames > 1)
}

fn frames_of_gif(bytes: &[u8]) -> Option<usize> {
    let table = |flags: u8| if flags & 0x80 != 0 { 3 << ((flags & 7) + 1) } else { 0 };
    let mut at = 13 + table(*bytes.get(10)?);
    let mut frames = 0;
    while frames < 2 {
        match bytes.get(at) {
            Some(0x21) => at = after_blocks(bytes, at + 2)?,
            Some(0x2c) => {
                frames += 1;
                at = after_blocks(bytes, at + 11 + table(*bytes.get(at + 9)?))?;
            }
            _ => break,
        }
    }
    Some(frames)
}

/// Each block says how long it is; an empty one is the last.
fn after_blocks(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match bytes.get(at)? {
            0 => return Some(at + 1),
            length => at += usize::from(*length) + 1,
        }
    }
}
