"""Writing: no empty boxes, no text outside its place, QR codes that say what the label says."""

from __future__ import annotations

import numpy as np
import pytest
import zxingcpp
from PIL import Image

from certloop.synth.errors import FontMissingError, GlyphMissingError, TextFitError
from certloop.synth.layout import Style
from certloop.synth.render.fonts import Faces, default_faces
from certloop.synth.render.seal import SealSpec, draw_seal, stamp
from certloop.synth.render.text import Pen, draw_line, draw_spread, fit, wrap
from certloop.synth.sample import Recipe, draw_document


def pen(width: int = 800, height: int = 200) -> Pen:
    return Pen(Image.new("RGB", (width, height), "white"), 1.0, default_faces())


def test_a_character_that_a_face_lacks_is_drawn_by_another() -> None:
    """The Song face has no 〇 (it is in nearly every old licence)."""
    runs = default_faces().runs("song", "二〇一三年")
    assert "".join(text for _, text in runs) == "二〇一三年"
    mine = pen()
    box = draw_line(mine, "〇", 20, 100, Style(size=60))
    ink = np.asarray(mine.canvas.convert("L"))[:, int(box[0]) : int(box[2])]
    assert (ink < 128).sum() > 100


def test_what_no_face_has_is_an_error_and_no_box() -> None:
    with pytest.raises(GlyphMissingError, match=r"U\+12000") as caught:
        draw_line(pen(), "\U00012000", 10, 50, Style())
    assert caught.value.code == "glyph_missing"
    with pytest.raises(FontMissingError, match="known: "):
        Faces().role("comic")


def test_wrapping_keeps_every_character_and_the_width() -> None:
    text = "销售：预包装食品、散装食品，网址：http://www.example.cn/12345，（依法须经批准的项目）。"
    mine = pen()
    for tidy in (True, False):
        lines = wrap(mine, text, Style(size=20), 160, tidy=tidy)
        assert "".join(lines) == text
        if tidy:
            assert not any(line[0] in "，。；：、）" for line in lines[1:])


def test_text_shrinks_and_then_fails() -> None:
    style, lines = fit(pen(), "有限责任公司（自然人投资或控股）", Style(size=20), 240, 1)
    assert len(lines) == 1 and style.size < 20
    with pytest.raises(TextFitError) as caught:
        fit(pen(), "字" * 200, Style(size=20), 240, 1)
    assert caught.value.code == "text_does_not_fit"


def test_spread_labels_fill_their_width() -> None:
    box = draw_spread(pen(), "名称", 100, 100, 130, Style(font="hei", size=18))
    assert box[0] == 100
    assert box[2] == pytest.approx(230, abs=2)


def test_ink_lies_inside_the_boxes_that_are_reported() -> None:
    for role in ("song", "serif", "kai", "hei"):
        mine = pen()
        x0, y0, x1, y1 = draw_line(mine, "执照（副本）91430111MA4TFE940D", 40, 100, Style(font=role, size=30))
        rows, columns = np.where(np.asarray(mine.canvas.convert("L")) < 128)
        assert x0 - 2 <= columns.min() and columns.max() <= x1 + 2
        assert y0 - 2 <= rows.min() and rows.max() <= y1 + 2


def test_seal_ink_multiplies_so_print_under_it_stays() -> None:
    canvas = Image.new("RGB", (300, 300), "white")
    canvas.paste((0, 0, 0), (0, 140, 300, 160))
    ink = draw_seal(SealSpec("某某市市场监督管理局"), 200, default_faces(), np.random.default_rng(1))
    stamp(canvas, ink, 50, 50, "red")
    pixels = np.asarray(canvas)
    assert pixels[150].max() < 10
    red = (pixels[..., 0].astype(int) - pixels[..., 1] > 60).sum()
    assert red > 2000


@pytest.mark.parametrize("layout", ["horizontal_2019", "vertical_2015"])
def test_qr_decodes_to_the_payload_and_holds_the_printed_code(layout: str) -> None:
    page = draw_document(Recipe("business_licence", 3, 1400, layouts=(layout,))).page
    found = zxingcpp.read_barcodes(np.asarray(page.image))
    assert [b.text for b in found] == [page.qr_payload]
    assert page.values["credit_code"] in page.qr_payload


def test_the_same_seed_draws_the_same_page() -> None:
    first, second = (draw_document(Recipe("food_operation_permit", 9, 600)).page for _ in range(2))
    assert first.image.tobytes() == second.image.tobytes() and first.values == second.values
    assert draw_document(Recipe("food_operation_permit", 10, 600)).page.values != first.values
