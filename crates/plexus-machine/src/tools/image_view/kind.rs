//! Detects the type of a file from its content; its name and the server's content type are not trusted.

use image::ImageFormat;

/// An image format that can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Png,
    Jpeg,
    WebP,
    Gif,
    Bmp,
}

/// Any other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherFileType {
    Empty,
    Svg,
    Page,
    Pdf,
    /// An image in a format that cannot be decoded.
    Picture(&'static str),
    Unknown,
}

impl Format {
    pub(super) fn of(bytes: &[u8]) -> Result<Self, OtherFileType> {
        match image::guess_format(bytes) {
            Ok(ImageFormat::Png) => Ok(Self::Png),
            Ok(ImageFormat::Jpeg) => Ok(Self::Jpeg),
            Ok(ImageFormat::WebP) => Ok(Self::WebP),
            Ok(ImageFormat::Gif) => Ok(Self::Gif),
            Ok(ImageFormat::Bmp) => Ok(Self::Bmp),
            Ok(ImageFormat::Tiff) => Err(OtherFileType::Picture("TIFF")),
            Ok(ImageFormat::Ico) => Err(OtherFileType::Picture("ICO")),
            Ok(ImageFormat::Avif) => Err(OtherFileType::Picture("AVIF")),
            _ => Err(OtherFileType::of(bytes)),
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

    /// Whether models accept the format without conversion.
    pub(super) fn is_common(self) -> bool {
        self != Self::Bmp
    }
}

impl OtherFileType {
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
                "Read it as text, or convert it to PNG on the machine first (rsvg-convert, ImageMagick)."
            }
            Self::Page => {
                "Give the URL of the image itself. An image that requires a login must be downloaded on the machine."
            }
            Self::Pdf => "Convert a page of it to PNG on the machine first (pdftoppm -png).",
            Self::Picture(_) => {
                "Convert it to PNG or JPEG on the machine first, for example with ImageMagick."
            }
            Self::Empty | Self::Unknown => "PNG, JPEG, WebP, GIF and BMP are supported.",
        }
    }
}

impl std::fmt::Display for OtherFileType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("the file is empty"),
            Self::Svg => f.write_str("it is an SVG drawing, which must be rendered first"),
            Self::Page => f.write_str("it is a web page, not an image"),
            Self::Pdf => f.write_str("it is a PDF document, not an image"),
            Self::Picture(format) => {
                write!(f, "it is an image in the format {format}, which is not supported")
            }
            Self::Unknown => f.write_str("it is not an image in a known format"),
        }
    }
}

/// Whether a GIF has a second frame, without decoding it.
pub(super) fn is_animated_gif(bytes: &[u8]) -> bool {
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

/// Skips data sub-blocks: each starts with its length, and an empty one is the last.
fn after_blocks(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match bytes.get(at)? {
            0 => return Some(at + 1),
            length => at += usize::from(*length) + 1,
        }
    }
}
