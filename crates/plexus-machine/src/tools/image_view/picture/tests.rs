use image::codecs::gif::GifEncoder;
use image::{ExtendedColorType, Frame, ImageEncoder as _, ImageFormat, Rgb, Rgba, RgbaImage};
use rand::{RngExt as _, SeedableRng as _};

use super::*;

const RED: Rgb<u8> = Rgb([250, 10, 10]);
const BLUE: Rgb<u8> = Rgb([10, 10, 250]);

/// Red on the left, blue on the right.
fn halves(width: u32, height: u32) -> DynamicImage {
    RgbImage::from_fn(width, height, |x, _| if x < width / 2 { RED } else { BLUE }).into()
}

/// As many colours as a photo, and incompressible.
fn noise(width: u32, height: u32, alpha: Option<u8>) -> DynamicImage {
    let mut random = rand::rngs::SmallRng::seed_from_u64(7);
    let picture = RgbaImage::from_fn(width, height, |_, _| {
        let [r, g, b, _] = random.random::<u32>().to_le_bytes();
        Rgba([r, g, b, alpha.unwrap_or(255)])
    });
    if alpha.is_some() { picture.into() } else { DynamicImage::from(picture).into_rgb8().into() }
}

fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn decoded(shown: &ShownImage) -> RgbaImage {
    let picture = image::load_from_memory(&shown.bytes).unwrap();
    assert_eq!(picture.dimensions(), (shown.width, shown.height));
    picture.into_rgba8()
}

fn is(pixel: &Rgba<u8>, colour: Rgb<u8>) -> bool {
    (0..3).all(|channel| pixel.0[channel].abs_diff(colour.0[channel]) < 40)
}

#[test]
fn small_images_in_common_formats_are_unchanged() {
    for (format, name) in [
        (ImageFormat::Png, Format::Png),
        (ImageFormat::Jpeg, Format::Jpeg),
        (ImageFormat::WebP, Format::WebP),
        (ImageFormat::Gif, Format::Gif),
    ] {
        let bytes = encoded(&halves(64, 32), format);
        let shown = show(bytes.clone(), 64).unwrap();
        assert_eq!((shown.format, shown.width, shown.height), (name, 64, 32));
        assert!(shown.bytes == bytes, "{name:?}");
    }
}

#[test]
fn unsupported_formats_are_converted() {
    let shown = show(encoded(&halves(64, 32), ImageFormat::Bmp), 64).unwrap();
    assert_eq!((shown.format, shown.original.format), (Format::Png, Format::Bmp));
    assert!(is(decoded(&shown).get_pixel(5, 5), RED));
    let shown = show(encoded(&noise(64, 32, None), ImageFormat::Bmp), 64).unwrap();
    assert_eq!(shown.format, Format::Jpeg);
}

#[test]
fn large_images_are_scaled_down() {
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP, ImageFormat::Gif, ImageFormat::Bmp]
    {
        for (size, edge, expected) in [
            ((900, 300), 300, (300, 100)),
            ((300, 900), 200, (67, 200)),
            ((350, 100), 300, (300, 86)),
            ((900, 1), 16, (16, 1)),
        ] {
            let shown = show(encoded(&halves(size.0, size.1), format), edge).unwrap();
            assert_eq!((shown.width, shown.height), expected, "{format:?}");
            assert_eq!((shown.original.width, shown.original.height), size);
            let picture = decoded(&shown);
            assert!(is(picture.get_pixel(1, expected.1 / 2), RED), "{format:?}");
            assert!(is(picture.get_pixel(expected.0 - 2, expected.1 / 2), BLUE), "{format:?}");
        }
    }
}

#[test]
fn drawings_stay_sharp_and_transparency_is_preserved() {
    assert_eq!(show(encoded(&halves(400, 400), ImageFormat::Png), 100).unwrap().format, Format::Png);
    assert_eq!(show(encoded(&noise(400, 400, None), ImageFormat::Png), 100).unwrap().format, Format::Jpeg);
    let shown = show(encoded(&noise(400, 400, Some(0)), ImageFormat::Png), 100).unwrap();
    assert_eq!(shown.format, Format::Png);
    assert!(decoded(&shown).pixels().all(|pixel| pixel.0[3] == 0));
    // An alpha channel without transparent pixels is dropped.
    assert_eq!(
        show(encoded(&noise(400, 400, Some(255)), ImageFormat::Png), 100).unwrap().format,
        Format::Jpeg
    );
}

#[test]
fn sixteen_bit_and_grey_images_are_shown() {
    let deep = DynamicImage::from(noise(300, 300, Some(90)).into_rgba16());
    let grey = DynamicImage::from(noise(300, 300, None).into_luma8());
    for picture in
        [deep, DynamicImage::from(grey.to_luma16()), DynamicImage::from(grey.to_luma_alpha8()), grey]
    {
        let shown = show(encoded(&picture, ImageFormat::Png), 100).unwrap();
        assert_eq!(decoded(&shown).dimensions(), (100, 100));
    }
}

#[test]
fn shown_images_fit_into_a_result() {
    let shown = show(encoded(&noise(600, 600, None), ImageFormat::Png), 2000).unwrap();
    assert!(shown.original.bytes > MAX_SHOWN && shown.bytes.len() <= MAX_SHOWN);
    assert_eq!((shown.format, shown.width), (Format::Jpeg, 600));
    let shown = show(encoded(&noise(600, 600, Some(90)), ImageFormat::Png), 2000).unwrap();
    assert!(shown.bytes.len() <= MAX_SHOWN && shown.format == Format::Png);
    assert!(shown.width < 600 && decoded(&shown).width() == shown.width);
}

/// A JPEG with an orientation tag.
fn with_orientation(picture: &DynamicImage, orientation: u8) -> Vec<u8> {
    let mut exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\0\0\0\0\0\0\0".to_vec();
    let value = exif.len() - 7;
    exif[value] = orientation;
    let mut bytes = encoded(picture, ImageFormat::Jpeg);
    let length = u16::try_from(exif.len() + 2).unwrap().to_be_bytes();
    let segment = [&[0xff, 0xe1], &length[..], &exif].concat();
    bytes.splice(2..2, segment);
    bytes
}

#[test]
fn photo_orientation_is_applied() {
    // The position of the red half, and whether width and height are swapped.
    for (orientation, red, turned) in [
        (1, "left", false),
        (2, "right", false),
        (3, "right", false),
        (4, "left", false),
        (5, "top", true),
        (6, "top", true),
        (7, "bottom", true),
        (8, "bottom", true),
        (9, "left", false),
        (0, "left", false),
    ] {
        for edge in [160, 64] {
            let shown = show(with_orientation(&halves(160, 80), orientation), edge).unwrap();
            let size = if turned { (edge / 2, edge) } else { (edge, edge / 2) };
            assert_eq!((shown.width, shown.height), size, "{orientation}");
            let (w, h) = size;
            let (x, y) = match red {
                "left" => (5, h / 2),
                "right" => (w - 5, h / 2),
                "top" => (w / 2, 5),
                _ => (w / 2, h - 5),
            };
            assert!(is(decoded(&shown).get_pixel(x, y), RED), "{orientation}");
            assert!(is(decoded(&shown).get_pixel(w - x, h - y), BLUE), "{orientation}");
        }
    }
}

#[test]
fn animations_show_their_first_frame() {
    let frames = [halves(40, 20), noise(40, 20, None)];
    let mut bytes = Vec::new();
    let mut encoder = GifEncoder::new(&mut bytes);
    encoder.encode_frames(frames.iter().map(|frame| Frame::new(frame.to_rgba8()))).unwrap();
    drop(encoder);
    let shown = show(bytes, 100).unwrap();
    assert!(shown.original.animated);
    assert_eq!(shown.format, Format::Png);
    assert!(is(decoded(&shown).get_pixel(2, 2), RED) && is(decoded(&shown).get_pixel(38, 2), BLUE));
    assert!(!show(encoded(&halves(40, 20), ImageFormat::Gif), 100).unwrap().original.animated);
}

/// A PNG chunk: length, name, content and checksum.
fn chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let named = [&name[..], content].concat();
    let sum = crc(&named).to_be_bytes();
    [&u32::try_from(content.len()).unwrap().to_be_bytes()[..], &named, &sum].concat()
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |sum, byte| {
        (0..8).fold(
            sum ^ u32::from(*byte),
            |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 },
        )
    })
}

fn png(width: u32, height: u32, chunks: &[Vec<u8>]) -> Vec<u8> {
    let head = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    let chunks = [&[chunk(b"IHDR", &head)], chunks, &[chunk(b"IEND", b"")]].concat();
    [&b"\x89PNG\r\n\x1a\n"[..], &chunks.concat()].concat()
}

/// The given number of zeros in zlib format, a few hundred times smaller.
fn zeros(count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let encoder = PngEncoder::new(&mut bytes);
    let width = 1_u32 << 15;
    let rows = u32::try_from(count >> 15).unwrap();
    encoder
        .write_image(&vec![0; width as usize * rows as usize], width, rows, ExtendedColorType::L8)
        .unwrap();
    // The content of all IDAT chunks forms one stream.
    let (mut at, mut stream) = (8, Vec::new());
    while at < bytes.len() {
        let length = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        if &bytes[at + 4..at + 8] == b"IDAT" {
            stream.extend_from_slice(&bytes[at + 8..at + 8 + length]);
        }
        at += length + 12;
    }
    stream
}

#[test]
fn small_file_with_huge_declared_size_is_refused() {
    let idat = [chunk(b"IDAT", &zeros(1 << 15))];
    let mut jpeg = encoded(&halves(64, 32), ImageFormat::Jpeg);
    let sof = jpeg.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
    jpeg[sof + 5..sof + 9].copy_from_slice(&[0xea, 0x60, 0xea, 0x60]);
    let mut gif = encoded(&halves(64, 32), ImageFormat::Gif);
    gif[6..10].fill(0xff);
    let mut bmp = encoded(&halves(64, 32), ImageFormat::Bmp);
    bmp[18..22].copy_from_slice(&60_000_u32.to_le_bytes());
    bmp[22..26].copy_from_slice(&60_000_u32.to_le_bytes());
    let webp = {
        let inner = encoded(&halves(64, 32), ImageFormat::WebP);
        let canvas = [&[0, 0, 0, 0][..], &[0xff, 0x3f, 0], &[0xff, 0x3f, 0]].concat();
        let body = [&b"WEBPVP8X\x0a\0\0\0"[..], &canvas, &inner[12..]].concat();
        [&b"RIFF"[..], &u32::try_from(body.len()).unwrap().to_le_bytes(), &body].concat()
    };
    let cases = [
        ("png", png(60_000, 60_000, &idat)),
        ("wide png", png(u32::MAX >> 1, 1, &idat)),
        ("many pixels", png(20_000, 3_300, &idat)),
        ("jpeg", jpeg),
        ("gif", gif),
        ("bmp", bmp),
        ("webp", webp),
    ];
    for (name, bytes) in cases {
        assert!(bytes.len() < 10_000);
        let refused = show(bytes, 1568).unwrap_err();
        assert!(matches!(refused, ViewError::TooLarge { .. } | ViewError::Broken(_)), "{name}: {refused}");
        if !matches!(name, "wide png" | "webp") {
            assert!(matches!(refused, ViewError::TooLarge { .. }), "{name}: {refused}");
        }
    }
}

/// A frame that is larger than its image.
#[test]
fn gif_frame_larger_than_its_canvas_takes_no_memory() {
    let mut gif = encoded(&halves(64, 32), ImageFormat::Gif);
    let frame = gif.windows(5).position(|head| head == [0x2c, 0, 0, 0, 0]).unwrap();
    gif[frame + 5..frame + 9].fill(0xff);
    assert!(matches!(show(gif, 1568).unwrap_err(), ViewError::Broken(_)));
}

#[test]
fn surplus_compressed_data_is_ignored() {
    let stream = zeros(64 << 20);
    assert!(stream.len() < 1 << 20);
    // More data than the declared pixels; only the declared pixels are shown.
    if let Ok(shown) = show(png(100, 100, &[chunk(b"IDAT", &stream)]), 1568) {
        assert_eq!((shown.width, shown.height), (100, 100));
    }
    let text = chunk(b"zTXt", &[&b"Comment\0\0"[..], &stream].concat());
    let profile = chunk(b"iCCP", &[&b"icc\0\0"[..], &stream].concat());
    let idat = chunk(b"IDAT", &zeros(1 << 15));
    let _ = show(png(10, 10, &[text, profile, idat]), 1568);
}

#[test]
fn damaged_files_never_panic() {
    let mut random = rand::rngs::SmallRng::seed_from_u64(11);
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP, ImageFormat::Gif, ImageFormat::Bmp]
    {
        let encoded_image = encoded(&noise(48, 32, None), format);
        for tenths in 0..10 {
            let cut = encoded_image[..encoded_image.len() * tenths / 10].to_vec();
            if let Ok(shown) = show(cut, 1568) {
                assert_eq!((shown.width, shown.height), (48, 32), "{format:?}");
                assert!(tenths > 0);
            }
        }
        for _ in 0..300 {
            let mut bytes = encoded_image.clone();
            for _ in 0..random.random_range(1..8) {
                let (at, to) = (random.random_range(0..bytes.len().min(400)), random.random());
                bytes[at] = to;
            }
            if let Ok(shown) = show(bytes, 64) {
                assert!(shown.width.max(shown.height) <= 64 && shown.bytes.len() <= MAX_SHOWN);
            }
        }
    }
}

#[test]
fn error_names_the_type_of_a_file_that_is_not_an_image() {
    for (bytes, says) in [
        (&b""[..], "empty"),
        (b"<svg xmlns=\"http://www.w3.org/2000/svg\"><script/></svg>", "SVG"),
        (b"\xef\xbb\xbf  <?xml version=\"1.0\"?>\n<!-- x --><SVG/>", "SVG"),
        (b"<!DOCTYPE html><html><svg/></html>", "web page"),
        (b"\n<html><body>Please log in</body></html>", "web page"),
        (b"%PDF-1.7\n", "PDF"),
        (b"II*\0\x08\0\0\0", "TIFF"),
        (b"\0\0\x01\0\x01\0", "ICO"),
        (b"\0\0\0\x20ftypavif\0\0\0\0", "AVIF"),
        (b"\0\0\0\x20ftypheic\0\0\0\0", "HEIC"),
        (b"just text", "not an image in a known format"),
        (b"\x7fELF\x02\x01\x01\0", "not an image in a known format"),
        (b"\x1f\x8b\x08\0\0\0", "not an image in a known format"),
        (b"\x89PNG\r\n\x1a\n", "cannot be decoded"),
        (b"\xff\xd8\xff\xe0nothing", "cannot be decoded"),
        (b"GIF89a", "cannot be decoded"),
        (b"RIFF\0\0\0\0WEBP", "cannot be decoded"),
        (b"BM", "cannot be decoded"),
    ] {
        let why = show(bytes.to_vec(), 1568).unwrap_err().to_string();
        assert!(why.contains(says), "{bytes:?}: {why}");
    }
}

#[test]
fn animated_webp_shows_its_first_frame() {
    let still = encoded(&halves(16, 8), ImageFormat::WebP);
    assert!(!show(still.clone(), 100).unwrap().original.animated);
    let part = |name: &[u8; 4], content: &[u8]| {
        [&name[..], &u32::try_from(content.len()).unwrap().to_le_bytes(), content].concat()
    };
    let frame = [&[0, 0, 0, 0, 0, 0, 15, 0, 0, 7, 0, 0, 100, 0, 0, 0][..], &still[12..]].concat();
    let parts = [
        b"WEBP".to_vec(),
        part(b"VP8X", &[2, 0, 0, 0, 15, 0, 0, 7, 0, 0]),
        part(b"ANIM", &[0; 6]),
        part(b"ANMF", &frame),
        part(b"ANMF", &frame),
    ];
    let shown = show(part(b"RIFF", &parts.concat()), 100).unwrap();
    assert!(shown.original.animated && shown.format == Format::Png);
    assert!(is(decoded(&shown).get_pixel(2, 2), RED));
}
