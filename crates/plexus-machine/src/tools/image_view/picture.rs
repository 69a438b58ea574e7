//! Decodes an image within limits, applies its orientation, scales it down, and encodes it again if necessary.
//!
//! The declared size is checked before memory is allocated. All functions here block.

use std::collections::HashSet;
use std::io::Cursor;

use image::codecs::bmp::BmpDecoder;
use image::codecs::gif::GifDecoder;
use image::codecs::jpeg::{JpegDecoder, JpegEncoder};
use image::codecs::png::{CompressionType, FilterType as PngFilter, PngDecoder, PngEncoder};
use image::codecs::webp::WebPDecoder;
use image::imageops::{self, FilterType};
use image::metadata::Orientation;
use image::{DynamicImage, GenericImageView as _, ImageDecoder, ImageError, ImageResult, Limits, RgbImage};

use super::kind::{Format, OtherFileType, is_animated_gif};

/// The maximum number of pixels on an edge.
const MAX_SIDE: u32 = 30_000;
/// The maximum number of decoded pixels, about the size of a photo from a high-end camera.
const MAX_PIXELS: u64 = 64_000_000;
/// The maximum number of bytes that a decoder may allocate.
const MAX_DECODED: u64 = 256 << 20;
/// The maximum size of a shown image. Base64 adds a third, which is still below the limit of a result.
pub(super) const MAX_SHOWN: usize = 750_000;
/// Up to this number of colours, a PNG is smaller than a JPEG, and sharp.
const FEW_COLOURS: usize = 256;
/// JPEG qualities, tried in order until the image is small enough.
const QUALITIES: [u8; 3] = [85, 70, 50];
/// Each round reduces the longest edge by a quarter.
const MAX_ROUNDS: usize = 16;

#[derive(Debug)]
pub(super) struct ShownImage {
    pub(super) bytes: Vec<u8>,
    pub(super) format: Format,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) original: Original,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Original {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) format: Format,
    pub(super) bytes: usize,
    pub(super) animated: bool,
}

/// The reason an image cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum ViewError {
    #[error("{0}")]
    Not(OtherFileType),
    #[error(
        "the image has {width} × {height} pixels; the maximum is {} million pixels, and {MAX_SIDE} on an edge",
        MAX_PIXELS / 1_000_000
    )]
    TooLarge { width: u32, height: u32 },
    #[error("the image cannot be decoded: {0}")]
    Broken(String),
}

impl From<ImageError> for ViewError {
    fn from(error: ImageError) -> Self {
        Self::Broken(error.to_string())
    }
}

/// Prepares the image in these bytes, with no edge longer than `max_edge`.
pub(super) fn show(bytes: Vec<u8>, max_edge: u32) -> Result<ShownImage, ViewError> {
    let format = Format::of(&bytes).map_err(ViewError::Not)?;
    let (picture, orientation, animated) = decode(&bytes, format)?;
    let (width, height) = apply_orientation(picture.dimensions(), orientation);
    let original = Original { width, height, format, bytes: bytes.len(), animated };
    let fits = width.max(height) <= max_edge && bytes.len() <= MAX_SHOWN;
    if fits && format.is_common() && !animated && orientation == Orientation::NoTransforms {
        return Ok(ShownImage { bytes, format, width, height, original });
    }
    drop(bytes);
    let picture = to_eight_bits(picture);
    // Check the colours before scaling, which creates intermediate colours.
    let sharp = picture.as_rgb8().is_none_or(has_few_colours);
    // Rotate after scaling, which is cheaper and has the same result.
    let mut picture = scale_down(picture, max_edge);
    picture.apply_orientation(orientation);
    for _ in 0..MAX_ROUNDS {
        if let Some((bytes, format)) = encode(&picture, sharp)? {
            let (width, height) = picture.dimensions();
            return Ok(ShownImage { bytes, format, width, height, original });
        }
        let longest = picture.width().max(picture.height());
        picture = scale_down(picture, (longest * 3 / 4).max(1));
    }
    Err(ViewError::Broken("it cannot be made small enough".to_owned()))
}

/// Returns the first frame, its orientation, and whether there are more frames.
fn decode(bytes: &[u8], format: Format) -> Result<(DynamicImage, Orientation, bool), ViewError> {
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODED);
    let (mut decoder, animated) = open(bytes, format, &limits)?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    let too_large = width.max(height) > MAX_SIDE || pixels > MAX_PIXELS;
    if too_large || decoder.total_bytes() > MAX_DECODED {
        return Err(ViewError::TooLarge { width, height });
    }
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    decoder.set_limits(limits)?;
    // Invalid orientation data is ignored.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    Ok((DynamicImage::from_decoder(decoder)?, orientation, animated))
}

/// Reads only the header.
fn open<'b>(
    bytes: &'b [u8],
    format: Format,
    limits: &Limits,
) -> ImageResult<(Box<dyn ImageDecoder + 'b>, bool)> {
    let input = Cursor::new(bytes);
    Ok(match format {
        Format::Png => {
            let decoder = PngDecoder::with_limits(input, limits.clone())?;
            let animated = decoder.is_apng()?;
            (Box::new(decoder), animated)
        }
        Format::Jpeg => (Box::new(JpegDecoder::new(input)?), false),
        Format::WebP => {
            let decoder = WebPDecoder::new(input)?;
            let animated = decoder.has_animation();
            (Box::new(decoder), animated)
        }
        Format::Gif => (Box::new(GifDecoder::new(input)?), is_animated_gif(bytes)),
        Format::Bmp => (Box::new(BmpDecoder::new(input)?), false),
    })
}

fn apply_orientation((width, height): (u32, u32), orientation: Orientation) -> (u32, u32) {
    match orientation {
        Orientation::Rotate90
        | Orientation::Rotate270
        | Orientation::Rotate90FlipH
        | Orientation::Rotate270FlipH => (height, width),
        Orientation::NoTransforms
        | Orientation::Rotate180
        | Orientation::FlipHorizontal
        | Orientation::FlipVertical => (width, height),
    }
}

/// Converts to three or four bytes per pixel; four only if any pixel is transparent.
fn to_eight_bits(picture: DynamicImage) -> DynamicImage {
    if !picture.color().has_alpha() {
        return picture.into_rgb8().into();
    }
    let picture = picture.into_rgba8();
    match picture.pixels().all(|pixel| pixel.0[3] == u8::MAX) {
        true => DynamicImage::from(picture).into_rgb8().into(),
        false => picture.into(),
    }
}

/// Scales down to the maximum edge: first by averaging, which needs no additional memory, then with a better filter.
fn scale_down(picture: DynamicImage, max_edge: u32) -> DynamicImage {
    let (width, height) = picture.dimensions();
    let longest = width.max(height);
    if longest <= max_edge {
        return picture;
    }
    let to = |edge: u32| {
        let side = |side: u32| (u64::from(side) * u64::from(edge)).div_ceil(u64::from(longest)).max(1) as u32;
        (side(width), side(height))
    };
    let (rough, fine) = (to(max_edge.saturating_mul(2)), to(max_edge));
    macro_rules! scale {
        ($picture:expr) => {{
            let mut picture = $picture;
            if longest / 2 > max_edge {
                picture = imageops::thumbnail(&picture, rough.0, rough.1);
            }
            imageops::resize(&picture, fine.0, fine.1, FilterType::CatmullRom).into()
        }};
    }
    match picture {
        DynamicImage::ImageRgba8(picture) => scale!(picture),
        picture => scale!(picture.into_rgb8()),
    }
}

/// Encodes the image within the size limit; `None` if that is impossible. `sharp` is set for images with edges that
/// JPEG would blur, or with transparency.
fn encode(picture: &DynamicImage, sharp: bool) -> ImageResult<Option<(Vec<u8>, Format)>> {
    if sharp {
        let mut bytes = Vec::new();
        let encoder = PngEncoder::new_with_quality(&mut bytes, CompressionType::Default, PngFilter::Adaptive);
        picture.write_with_encoder(encoder)?;
        if bytes.len() <= MAX_SHOWN {
            return Ok(Some((bytes, Format::Png)));
        }
    }
    let Some(rgb) = picture.as_rgb8() else { return Ok(None) };
    for quality in QUALITIES {
        let mut bytes = Vec::new();
        JpegEncoder::new_with_quality(&mut bytes, quality).encode_image(rgb)?;
        if bytes.len() <= MAX_SHOWN {
            return Ok(Some((bytes, Format::Jpeg)));
        }
    }
    Ok(None)
}

fn has_few_colours(picture: &RgbImage) -> bool {
    let mut seen = HashSet::new();
    picture.pixels().all(|pixel| {
        seen.insert(pixel.0);
        seen.len() <= FEW_COLOURS
    })
}

#[cfg(test)]
mod tests;
