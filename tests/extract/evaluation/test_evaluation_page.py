"""The HTML page: self-contained, escaped, crops cut from where the field stood and turned upright."""

import base64
import io
import re

import pytest
from PIL import Image

from certloop.extract.evaluation import LabelDocument, LabelRow, Schema, evaluate, type_schema, write_html
from certloop.extract.evaluation.crops import Crop, Region, crop_all
from certloop.extract.result import Document, FieldResult, FieldStatus, FileStatus, Result

BOX = ((20.0, 10.0), (60.0, 10.0), (60.0, 20.0), (20.0, 20.0))


def picture(crop: Crop) -> Image.Image:
    assert crop.uri, crop.note
    return Image.open(io.BytesIO(base64.b64decode(crop.uri.split(",", 1)[1])))


def page_with_mark(mode="RGB", size=(100, 50)) -> Image.Image:
    """White, with a black left half and a grey right half in BOX."""
    image = Image.new("L", size, 255)
    image.paste(0, (20, 10, 40, 20))
    image.paste(128, (40, 10, 60, 20))
    return image.convert(mode)


def greys(image: Image.Image) -> tuple[int, int]:
    """What stands at a third and at two thirds of the middle line."""
    grey = image.convert("L")
    return tuple(int(grey.getpixel((int(grey.width * x), grey.height // 2))) for x in (0.35, 0.65))  # type: ignore[return-value]


def test_a_crop_shows_the_box_upright_however_the_page_is_turned(tmp_path) -> None:
    page = page_with_mark()
    page.save(tmp_path / "a.png")
    crop = picture(crop_all(tmp_path, "a.png", [Region(BOX)])[0])
    assert greys(crop) == (pytest.approx(0, abs=12), pytest.approx(128, abs=12))
    assert crop.width > 2 * crop.height
    page.transpose(Image.Transpose.ROTATE_270).save(tmp_path / "turned.png")  # 90 degrees clockwise: (x, y) -> (50 - y, x)
    turned = tuple((50 - y, x) for x, y in BOX)
    assert greys(picture(crop_all(tmp_path, "turned.png", [Region(turned)])[0])) == greys(crop)
    page.transpose(Image.Transpose.ROTATE_180).save(tmp_path / "down.png")
    down = tuple((100 - x, 50 - y) for x, y in BOX)
    assert greys(picture(crop_all(tmp_path, "down.png", [Region(down)])[0])) == greys(crop)


def test_exif_orientation_transparency_and_16_bits(tmp_path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    page_with_mark().transpose(Image.Transpose.ROTATE_90).save(tmp_path / "exif.png", exif=exif)
    grey = page_with_mark("L")
    dark, opaque = grey.point(lambda v: 0 if v == 255 else v), grey.point(lambda v: 0 if v == 255 else 255)
    clear = Image.merge("LA", (dark, opaque))
    clear.save(tmp_path / "clear.png")
    deep = page_with_mark("L").convert("I").point(lambda v: v * 257).convert("I;16")
    deep.save(tmp_path / "deep.png")
    for name in ("exif.png", "clear.png", "deep.png"):
        crop = picture(crop_all(tmp_path, name, [Region(BOX)])[0])
        assert greys(crop) == (pytest.approx(0, abs=12), pytest.approx(128, abs=12)), name
        assert crop.convert("L").getpixel((0, 0)) > 230, name


def test_what_cannot_be_shown_gives_a_note(tmp_path) -> None:
    for name in ("../x.png", "a\0b", "a\ud800"):
        assert crop_all(tmp_path, name, [Region()])[0].note == "image not found"
    images = tmp_path / "images"
    images.mkdir()
    page_with_mark().save(images / "a.png")
    page_with_mark().save(tmp_path / "outside.png")
    (images / "a.pdf").write_bytes(b"%PDF-1.4")
    assert crop_all(None, "a.png", [Region()])[0].note
    assert crop_all(images, "../outside.png", [Region()])[0].note == "image not found"
    assert crop_all(images, "none.png", [Region()])[0].note == "image not found"
    assert "UnidentifiedImageError" in crop_all(images, "a.pdf", [Region()])[0].note
    notes = [c.note for c in crop_all(images, "a.png", [
        Region(BOX, 3), Region(((500.0, 500.0), (600.0, 600.0))), Region(((float("nan"), 0.0),)), Region()])]  # fmt: skip
    assert notes == ["the image has no page 4", "the box lies outside the page", "the box is empty", "no box: the whole page"]


def report_of(got: str | None, file="a.png"):
    schema = Schema({"t": type_schema("t", "证件甲", [("name", "名称", "text", ())])})
    field = FieldResult("名称", got, None, FieldStatus.READ, 0.9, BOX if got else None, 0)
    results = [Result(file, FileStatus.OK, (Document("t", 1.0, {"name": field}),))]
    return evaluate(results, [LabelRow(file, (LabelDocument("t", {"名称": "甲<b>&"}),))], schema)


def test_the_page_is_self_contained_and_escaped(tmp_path) -> None:
    page_with_mark().save(tmp_path / "a.png")
    path = write_html(report_of('<script>alert("x")</script>'), tmp_path, tmp_path / "out" / "report.html")
    html = path.read_text(encoding="utf-8")
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "甲&lt;b&gt;&amp;" in html
    assert not re.search(r"https?://|<link|@import|url\(", html)
    assert re.findall(r'src="([^"]{15})', html) == ["data:image/jpeg"]
    assert "default-src 'none'" in html
    assert "1 of 1 errors" in html


def test_the_page_without_errors_images_or_room_for_all_cases(tmp_path) -> None:
    assert "No errors." in write_html(report_of("甲<b>&"), None, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "image not found" in write_html(report_of(None), tmp_path, tmp_path / "r.html").read_text(encoding="utf-8")
    capped = write_html(report_of("x"), None, tmp_path / "r.html", max_cases=0).read_text(encoding="utf-8")
    assert "0 of 1 errors" in capped
