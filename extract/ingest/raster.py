"""Pictures to upright 8-bit RGB pages, with Pillow."""

from __future__ import annotations

import io
import math
from typing import Any

from PIL import Image, ImageChops, UnidentifiedImageError

from certloop.extract.ingest.decode import PageSink, RawPage, check_size, image_size, out_of_memory, scale_of, too_many_pages
from certloop.extract.ingest.errors import (
    FormatUnsupportedError,
    ImageCorruptError,
    ImageTooManyPixelsError,
    ImageTruncatedError,
    IngestError,
)
from certloop.extract.ingest.formats import is_cut_short, webp_size
from certloop.extract.ingest.model import IngestLimits

COLOR_TOLERANCE = 8

_PILLOW_NAMES = {"jpeg": "JPEG", "png": "PNG", "gif": "GIF", "bmp": "BMP", "webp": "WEBP", "tiff": "TIFF", "heic": "HEIF"}
_ORIENTATION_TAG = 0x0112
_TRANSPOSE = {  # EXIF 2.3, tag Orientation; 1, 0 (invalid, yet found in the wild) and anything else leave the picture as it is
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIDEWAYS = (5, 6, 7, 8)
_TIFF_SUBFILE, _TIFF_PHOTOMETRIC = 254, 262
_NOT_A_PAGE = 0b101  # NewSubfileType: reduced-resolution copy, transparency mask
_UNSUPPORTED_SIGNS = ("unknown", "unsupported", "not available", "not supported", "unrecognized image mode", "cannot handle")


def decode_image(data: bytes, fmt: str, limits: IngestLimits, sink: PageSink) -> None:
    """Give ``sink`` the first frame of ``data``, or every page of a TIFF."""
    try:
        if fmt == "webp" and (size := webp_size(data)):
            check_size(*size, limits)
        image = _open(data, fmt)
        frames = _tiff_frames(image, limits, sink, data) if fmt == "tiff" else [0]
    except Exception as error:  # noqa: BLE001 - decoders raise nearly anything on damaged input
        raise _typed(error, data, fmt) from None
    for index, frame in enumerate(frames):
        try:
            page = _page(image, frame, index, fmt, limits)
        except Exception as error:  # noqa: BLE001 - as above, for one page
            sink.fail(index, _typed(error, data, fmt))
        else:
            sink.add(page)


def _open(data: bytes, fmt: str) -> Image.Image:
    if fmt == "heic":
        import pi_heif

        pi_heif.register_heif_opener(thumbnails=False, depth_images=False, aux_images=False, decode_threads=1)
    return Image.open(io.BytesIO(data), formats=[_PILLOW_NAMES[fmt]])


def _tiff_frames(image: Image.Image, limits: IngestLimits, sink: PageSink, data: bytes) -> list[int]:
    """Numbers of the TIFF directories that are pages. Thumbnails and masks are not; an unreadable directory ends the list."""
    frames: list[int] = []
    for frame in range(4 * limits.max_pages + 1):
        try:
            image.seek(frame)
            if not _tiff_tag(image, _TIFF_SUBFILE) & _NOT_A_PAGE:
                frames.append(frame)
        except EOFError:
            return frames or [0]
        except Exception as error:
            if frame == 0:
                raise
            sink.fail(len(frames), _typed(error, data, "tiff"))
            return frames or [0]
        if len(frames) > limits.max_pages:
            break
    raise too_many_pages(limits)


def _tiff_tag(image: Image.Image, tag: int) -> int:
    value = getattr(image, "tag_v2", {}).get(tag, 0)
    return value if isinstance(value, int) else 0


def _page(image: Image.Image, frame: int, index: int, fmt: str, limits: IngestLimits) -> RawPage:
    if fmt == "tiff":
        image.seek(frame)
    size = image.size
    check_size(*size, limits)
    scale = scale_of(*size, limits)
    if fmt == "jpeg" and scale <= 0.5:
        image.draft(None, image_size(*size, limits))  # the JPEG decoder halves for free, as long as it stays above our size
    image.load()
    if fmt == "heic":
        size = image.size  # libheif may learn the true size only while decoding
        check_size(*size, limits)
        scale = scale_of(*size, limits)
    flat = _to_gray_or_rgb(image)
    if flat.size != image_size(*size, limits):
        flat = flat.resize(image_size(*size, limits), Image.Resampling.BICUBIC, reducing_gap=3.0)
    # Pillow turns TIFF pages upright itself while loading
    orientation = 1 if fmt == "tiff" else image.getexif().get(_ORIENTATION_TAG, 1)
    if orientation in _TRANSPOSE:
        flat = flat.transpose(_TRANSPOSE[orientation])
    if orientation in _SIDEWAYS:
        size = size[1], size[0]
    return RawPage(
        rgb=(flat if flat.mode == "RGB" else flat.convert("RGB")).tobytes(),
        image_width=flat.width,
        image_height=flat.height,
        index=index,
        width=size[0],
        height=size[1],
        scale=scale,
        format=fmt,
        dpi=_dpi(image.info.get("dpi")),
        grayscale=is_gray(flat),
    )


def _to_gray_or_rgb(image: Image.Image) -> Image.Image:
    """Mode L or RGB: deep greys scaled to 8 bits, transparent parts on white, palettes and CMYK resolved."""
    if image.mode.startswith(("I", "F")):
        return _deep_to_gray(image)
    if image.has_transparency_data:
        rgba = (image.convert("LA") if image.mode == "La" else image).convert("RGBA")
        paper = Image.new("RGB", rgba.size, "white")
        paper.paste(rgba, mask=rgba.getchannel("A"))
        return paper
    wanted = "L" if image.mode in ("1", "L") else "RGB"
    return image if image.mode == wanted else image.convert(wanted)


def _deep_to_gray(image: Image.Image) -> Image.Image:
    """16-bit, 32-bit and float greys to 8 bits.

    16-bit pictures use their whole range (65535 is white). 32-bit and float ones have no agreed white: values up to 1.0 (floats),
    255 or 65535 are taken as such a range; beyond, the darkest and lightest values become black and white.
    """
    sixteen = image.mode.startswith("I;16")
    inverted = _tiff_tag(image, _TIFF_PHOTOMETRIC) == 0 and hasattr(image, "tag_v2")
    if sixteen:
        table = [round(v / 257) for v in range(65536)]
        transparent = image.info.get("transparency")
        if isinstance(transparent, int) and 0 <= transparent < 65536:
            table[transparent] = 255
        gray = image.convert("I").point(table, "L")
    else:
        low, high = image.convert("F").getextrema()
        assert isinstance(low, float) and isinstance(high, float)
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ImageCorruptError("this picture holds values that are not numbers: save it again as PNG or JPEG")
        tops = (1.0, 255.0, 65535.0) if image.mode == "F" else (255.0, 65535.0)
        white = next((top for top in tops if low >= 0 and high <= top), None)
        black, white = (0.0, white) if white else (low, max(high, low + 1))
        factor = 255 / (white - black)
        gray = image.convert("F").point(lambda v: v * factor + (0.5 - black * factor)).convert("L")
    return ImageChops.invert(gray) if inverted else gray


def is_gray(image: Image.Image) -> bool:
    """No pixel's channels differ by more than ``COLOR_TOLERANCE``."""
    if image.mode == "L":
        return True
    red, green, blue = image.split()
    for other in (red, blue):
        high: Any = ImageChops.difference(green, other).getextrema()
        if high[1] > COLOR_TOLERANCE:
            return False
    return True


def _dpi(value: object) -> float | None:
    try:
        dpi = float(value[0])  # type: ignore[index]
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        return None
    return round(dpi, 2) if 10 <= dpi <= 5000 else None


def _typed(error: Exception, data: bytes, fmt: str) -> IngestError:
    """The typed error for whatever a decoder raised. The decoder's text is only looked at: it may quote the file."""
    if isinstance(error, IngestError):
        return error
    text = str(error).lower()
    if isinstance(error, MemoryError) or "out of memory" in text or "memory allocation" in text:
        return out_of_memory()
    if isinstance(error, ImportError):
        raise error
    if isinstance(error, Image.DecompressionBombError):
        return ImageTooManyPixelsError("this picture has far too many pixels: scan it at a lower resolution")
    if "truncated" in text or is_cut_short(data, fmt):
        return ImageTruncatedError("the end of this picture is missing: copy or send the file again")
    if not isinstance(error, UnidentifiedImageError) and any(sign in text for sign in _UNSUPPORTED_SIGNS):
        return FormatUnsupportedError(f"this kind of {fmt.upper()} cannot be read: save it again as PNG or JPEG")
    return ImageCorruptError("this picture is damaged: copy or scan it again")
