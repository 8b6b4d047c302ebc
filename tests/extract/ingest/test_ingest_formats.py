"""Every picture format gives the pixels a viewer would show: upright, 8 bits, RGB, transparent parts on white."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from certloop.extract.ingest import IngestLimits, ingest, sniff
from certloop.extract.ingest.decode import RawPage, decode

R, G, B, W = (200, 30, 30), (30, 160, 30), (30, 30, 200), (255, 255, 255)

# EXIF 2.3, table of the tag Orientation: what the stored picture R G / B W looks like upright, read row by row
UPRIGHT = {
    0: (R, G, B, W),
    1: (R, G, B, W),
    2: (G, R, W, B),
    3: (W, B, G, R),
    4: (B, W, R, G),
    5: (R, B, G, W),
    6: (B, R, W, G),
    7: (W, G, B, R),
    8: (G, W, R, B),
}
LOSSLESS = {
    "png": ("PNG", {}),
    "bmp": ("BMP", {}),
    "gif": ("GIF", {}),
    "webp": ("WEBP", {"lossless": True}),
    "tiff": ("TIFF", {}),
    "tiff lzw": ("TIFF", {"compression": "tiff_lzw"}),
    "tiff deflate": ("TIFF", {"compression": "tiff_adobe_deflate"}),
    "tiff big": ("TIFF", {"big_tiff": True}),
}


def only_page(data, decoder, limits=None):
    result = ingest(data, limits, decoder=decoder)
    assert result.warnings == ()
    (page,) = result.pages
    assert page.image.dtype == np.uint8 and page.image.flags.c_contiguous and page.image.shape[2] == 3
    return page


@pytest.mark.parametrize("name", LOSSLESS)
def test_lossless_formats_keep_every_pixel(name, samples, decoder):
    fmt, options = LOSSLESS[name]
    picture = samples.quarters()
    page = only_page(samples.encoded(picture, fmt, **options), decoder)
    assert np.array_equal(page.image, np.asarray(picture))
    assert (page.format, page.index, page.width, page.height, page.scale) == (name.split()[0], 0, 64, 48, 1.0)
    assert not page.grayscale and page.text == ()


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"dpi": (300, 300)}])
def test_jpeg(options, samples, decoder):
    page = only_page(samples.jpeg(**options), decoder)
    assert page.format == "jpeg" and samples.close(samples.corners(page.image), (R, G, B, W))
    assert page.dpi == (300.0 if "dpi" in options else None)


def test_heic_primary_image_and_its_rotation(samples, decoder):
    page = only_page(samples.data / "small.heic", decoder)
    assert page.format == "heic" and (page.width, page.height) == (64, 48)
    assert samples.close(samples.corners(page.image), (R, G, B, W))
    page = only_page(samples.data / "turned.heic", decoder)  # written with EXIF orientation 6
    assert (page.width, page.height) == (48, 64)
    assert samples.close(samples.corners(page.image), UPRIGHT[6])


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("fmt", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_exif_orientation_turns_the_page_upright(fmt, orientation, samples, decoder):
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"JPEG": {"quality": 95, "subsampling": 0}, "WEBP": {"lossless": True}}.get(fmt, {})
    page = only_page(samples.encoded(samples.quarters(), fmt, exif=exif, **options), decoder)
    sideways = orientation >= 5
    assert (page.width, page.height) == ((48, 64) if sideways else (64, 48))
    assert page.image.shape[:2] == (page.height, page.width)
    assert samples.close(samples.corners(page.image), UPRIGHT[orientation])


def test_an_orientation_that_does_not_exist_is_ignored(samples, decoder):
    exif = Image.Exif()
    exif[0x0112] = 77
    assert samples.close(samples.corners(only_page(samples.jpeg(exif=exif), decoder).image), (R, G, B, W))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_parts_are_white(mode, samples, decoder):
    picture = Image.new("RGBA", (64, 48), (0, 0, 0, 0))  # transparent black: the trap, it must not turn black
    picture.paste((0, 0, 0, 255), (0, 0, 32, 48))
    data = samples.encoded(picture.convert(mode), "PNG")
    assert samples.corners(only_page(data, decoder).image) == ((0, 0, 0), W, (0, 0, 0), W)


def test_half_transparent_black_on_white_is_grey(samples, decoder):
    page = only_page(samples.encoded(Image.new("RGBA", (32, 32), (0, 0, 0, 128)), "PNG"), decoder)
    assert samples.close(page.image[0, 0], (127, 127, 127), 1)


def test_transparent_colour_of_a_grey_and_of_a_gif_picture(samples, decoder):
    grey = Image.new("L", (32, 32), 7)
    assert tuple(only_page(samples.encoded(grey, "PNG", transparency=7), decoder).image[0, 0]) == W
    palette = Image.new("P", (32, 32), 0)
    palette.putpalette([9, 9, 9, 200, 30, 30])
    palette.paste(1, (0, 0, 16, 32))
    assert samples.corners(only_page(samples.encoded(palette, "GIF", transparency=0), decoder).image) == (R, W, R, W)


@pytest.mark.parametrize("fmt", ["PNG", "TIFF"])
def test_sixteen_bits_keep_their_greys(fmt, samples, decoder):
    ramp = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16).repeat(2, 0).repeat(2, 1)
    page = only_page(samples.encoded(Image.fromarray(ramp), fmt), decoder)
    assert page.grayscale
    assert samples.close(page.image[..., 0], ramp / 257, 1)


def test_sixteen_bit_tiff_whose_white_is_zero(samples, decoder):
    ramp = np.linspace(0, 65535, 1024).astype(np.uint16).reshape(32, 32)
    page = only_page(samples.encoded(Image.fromarray(ramp), "TIFF", tiffinfo={262: 0}), decoder)
    assert samples.close(page.image[..., 0], 255 - ramp / 257, 1)


@pytest.mark.parametrize(("dtype", "top"), [(np.float32, 1.0), (np.float32, 255.0), (np.int32, 255), (np.int32, 65535)])
def test_float_and_32_bit_tiff_are_scaled_to_their_white(dtype, top, samples, decoder):
    ramp = (np.linspace(0, 1, 1024).reshape(32, 32) * top).astype(dtype)
    page = only_page(samples.encoded(Image.fromarray(ramp), "TIFF"), decoder)
    assert samples.close(page.image[..., 0], ramp.astype(float) / top * 255, 1)


@pytest.mark.parametrize("fmt", ["JPEG", "TIFF"])
def test_cmyk_has_its_colours(fmt, samples, decoder):
    """Pillow writes CMYK JPEGs with Adobe's inverted inks."""
    options = {"quality": 95, "subsampling": 0} if fmt == "JPEG" else {}
    page = only_page(samples.encoded(samples.quarters().convert("CMYK"), fmt, **options), decoder)
    assert samples.close(samples.corners(page.image), (R, G, B, W))


def test_black_and_white_and_grey_pictures_are_marked_grey(samples, decoder):
    bilevel = Image.new("1", (64, 48), 1)
    bilevel.paste(0, (0, 0, 32, 48))
    page = only_page(samples.encoded(bilevel, "TIFF", compression="group4"), decoder)
    assert page.grayscale and samples.corners(page.image) == ((0, 0, 0), W, (0, 0, 0), W)
    assert only_page(samples.encoded(samples.quarters().convert("L").convert("RGB"), "PNG"), decoder).grayscale


def test_first_frame_of_moving_pictures(samples, decoder):
    second = Image.new("RGB", (64, 48), "black")
    for fmt, options in (("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {})):
        data = samples.encoded(samples.quarters(), fmt, save_all=True, append_images=[second], **options)
        assert samples.corners(only_page(data, decoder).image) == (R, G, B, W), fmt
    data = samples.encoded(samples.quarters(), "MPO", save_all=True, append_images=[second], quality=95, subsampling=0)
    assert samples.close(samples.corners(only_page(data, decoder).image), (R, G, B, W))


def test_tiff_pages_in_order_without_thumbnails(samples, decoder):
    pages = [Image.new("RGB", (64, 48), color) for color in (R, G, B)]
    data = samples.encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    result = ingest(data, decoder=decoder)
    assert [(p.index, tuple(p.image[0, 0])) for p in result.pages] == [(0, R), (1, G), (2, B)]
    thumbnail = pages[2].resize((20, 16))
    thumbnail.encoderinfo = {"tiffinfo": {254: 1}}
    data = samples.encoded(pages[0], "TIFF", save_all=True, append_images=[thumbnail, pages[1]])
    assert [tuple(p.image[0, 0]) for p in ingest(data, decoder=decoder).pages] == [R, G]


@pytest.mark.parametrize("fmt", ["JPEG", "PNG"])
def test_large_pages_are_scaled_down_and_say_so(fmt, samples, decoder):
    exif = Image.Exif()
    exif[0x0112] = 6
    data = samples.encoded(samples.quarters(2000, 1500), fmt, exif=exif)
    page = only_page(data, decoder, IngestLimits(max_long_edge_px=500))
    assert (page.width, page.height, page.scale) == (1500, 2000, 0.25)
    assert page.image.shape == (500, 375, 3)
    assert samples.close(samples.corners(page.image), UPRIGHT[6], 10)


def test_content_decides_not_the_name(tmp_path, samples, decoder):
    path = tmp_path / "scan.pdf"
    path.write_bytes(samples.jpeg())
    assert only_page(path, decoder).format == "jpeg"


def test_polyglots_are_what_stands_at_byte_0(samples, decoder):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.txt", "x")
    assert only_page(samples.jpeg() + archive.getvalue(), decoder).format == "jpeg"
    assert only_page(samples.jpeg(comment=b"%PDF-1.4 "), decoder).format == "jpeg"
    pdf = samples.pdf(samples.text_page())
    assert ingest(b"X-Mailer: gateway\r\n\r\n" + pdf, decoder=decoder).pages[0].format == "pdf"
    assert sniff(b" " * 1100 + pdf) == "text"


@pytest.mark.parametrize("kind", ["jpeg", "png16", "heic", "pdf"])
def test_the_child_gives_the_same_pages_as_decoding_here(kind, samples, decoder):
    data = {
        "jpeg": samples.noisy_jpeg,
        "png16": lambda: samples.encoded(Image.fromarray(np.arange(4096, dtype=np.uint16).reshape(64, 64) * 16), "PNG"),
        "heic": (samples.data / "small.heic").read_bytes,
        "pdf": lambda: samples.pdf(samples.text_page(), samples.scan_page(samples.jpeg(300, 200), (300, 200))),
    }[kind]()
    here: list[RawPage] = []
    warnings = decode(data, sniff(data), IngestLimits(), here.append)
    there = ingest(data, decoder=decoder)
    assert there.warnings == warnings
    assert len(here) == len(there.pages) > 0
    for mine, page in zip(here, there.pages, strict=True):
        assert mine.rgb == page.image.tobytes()
        for name in ("index", "width", "height", "scale", "format", "dpi", "text", "grayscale"):
            assert getattr(mine, name) == getattr(page, name), name
