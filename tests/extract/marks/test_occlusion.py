from __future__ import annotations

import numpy as np
import pytest

from certloop.extract.marks import CoverKind, find_seals, masked_regions

EM = 22
STRIP = ((300.0, 296.0), (700.0, 296.0), (700.0, 330.0), (300.0, 330.0))
ELSEWHERE = ((300.0, 96.0), (700.0, 96.0), (700.0, 130.0), (300.0, 130.0))


@pytest.fixture
def form(page):
    drawn = page()
    for k, label in enumerate(("名称", "类型", "住所", "法定代表人", "注册资本", "成立日期")):
        drawn.text(80, 100 + 50 * k, label, EM).text(300, 100 + 50 * k, "上海青禾商贸有限公司一二三四五六", EM)
    return drawn


def assert_only_the_strip(masked):
    assert masked.is_masked(STRIP)
    assert not masked.is_masked(ELSEWHERE)


def test_plain_print_is_not_masked(form):
    masked = masked_regions(form.pixels, EM)
    assert masked.covers == ()
    assert not masked.is_masked(STRIP)


def test_marker_blob(form):
    form.draw.rounded_rectangle((380, 290, 560, 335), 20, fill=(5, 5, 5))
    assert_only_the_strip(masked_regions(form.pixels, EM))


@pytest.mark.parametrize("color", [(128, 128, 128), (60, 90, 160), (0, 0, 0)])
def test_plain_bar(form, color):
    form.draw.rectangle((300, 295, 640, 332), fill=color)
    masked = masked_regions(form.pixels, EM)
    assert_only_the_strip(masked)
    assert masked.covers[0].left == pytest.approx(300, abs=8)
    assert masked.covers[0].right == pytest.approx(640, abs=8)


def test_white_out_on_grey_paper(page):
    drawn = page(paper=(205, 205, 205)).text(80, 300, "名称", EM).text(300, 300, "上海青禾商贸有限公司", EM)
    drawn.draw.rectangle((330, 290, 520, 334), fill=(250, 250, 250))
    assert masked_regions(drawn.pixels, EM).is_masked(STRIP)


def test_mosaic(form):
    tones = np.random.default_rng(3).integers(60, 220, 16)
    for k, tone in enumerate(tones):
        form.draw.rectangle((300 + 20 * k, 303, 319 + 20 * k, 322), fill=(int(tone),) * 3)
    masked = masked_regions(form.pixels, EM)
    assert_only_the_strip(masked)
    assert {cover.kind for cover in masked.covers} == {CoverKind.MOSAIC}


def test_bold_title_table_seal_emblem_and_dark_table_are_no_covers(page):
    drawn = page()
    drawn.draw.rectangle((0, 0, 999, 40), fill=(40, 30, 25))
    drawn.draw.rectangle((0, 0, 60, 699), fill=(40, 30, 25))
    drawn.text(330, 60, "营业执照", 90)
    for y in range(200, 500, 60):
        drawn.draw.line((100, y, 900, y), fill=(30, 30, 30), width=3)
        drawn.text(120, y + 15, "经营范围技术开发", EM)
    drawn.ring_seal(750, 560, 90, "上海市市场监督管理局")
    image = drawn.pixels
    assert masked_regions(image, EM, [seal.box for seal in find_seals(image)]).covers == ()


def test_shadow_is_no_cover(form):
    image = form.pixels.astype(np.float32)
    x = np.linspace(-1, 1, image.shape[1])
    image *= (1 - 0.4 * np.exp(-((x - 0.1) ** 2) / 0.05))[None, :, None]
    assert masked_regions(image.astype(np.uint8), EM).covers == ()


@pytest.mark.parametrize("shape", [(1, 1, 3), (5, 900, 3), (900, 5, 3)])
def test_tiny_pages(shape):
    masked = masked_regions(np.zeros(shape, np.uint8), 20)
    assert masked.covers == ()
    assert masked.coverage(STRIP) == 0.0


def test_coverage_is_the_covered_share_of_the_width(form):
    form.draw.rectangle((300, 290, 500, 336), fill=(0, 0, 0))
    assert masked_regions(form.pixels, EM).coverage(STRIP) == pytest.approx(0.5, abs=0.06)
