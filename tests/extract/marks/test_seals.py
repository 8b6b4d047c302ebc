from __future__ import annotations

import cv2
import numpy as np
import pytest

from certloop.extract.marks import find_seals
from certloop.extract.marks.seals import Ellipse, ellipse_of


def test_blank_page_has_no_seal(page):
    assert find_seals(page().pixels) == []


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 500, 3), (23, 23, 3), (30, 2000, 3)])
def test_tiny_and_odd_sizes_have_no_seal(shape):
    assert find_seals(np.full(shape, 200, np.uint8)) == []


def test_text_alone_is_no_seal(page):
    assert find_seals(page().paragraph().text(200, 10, "营业执照", 60).pixels) == []


def test_noise_is_no_seal():
    noise = np.random.default_rng(5).integers(0, 256, (400, 500, 3), dtype=np.uint8)
    assert find_seals(noise) == []


@pytest.mark.parametrize("radius", [45, 90, 140])
def test_red_seal_is_found_with_its_place_and_size(page, radius):
    (seal,) = find_seals(page().paragraph().ring_seal(700, 500, radius, "上海市市场监督管理局").pixels)
    found = ellipse_of(seal)
    assert (seal.color, seal.shape) == ("red", "round")
    assert seal.confidence > 0.8
    assert (found.x, found.y) == pytest.approx((700, 500), abs=4)
    assert found.radius == pytest.approx(radius, rel=0.06)


def test_red_seal_across_print(page):
    drawn = page().paragraph(lines=16).ring_seal(400, 300, 90, "上海市市场监督管理局")
    drawn.paragraph(x=330, y=270, lines=2)
    assert [s.color for s in find_seals(drawn.pixels)] == ["red"]


def test_two_seals(page):
    drawn = page().ring_seal(250, 400, 80, "甲城商贸有限公司").ring_seal(700, 400, 100, "乙城市场监督管理局")
    assert sorted(round(ellipse_of(s).x / 10) for s in find_seals(drawn.pixels)) == [25, 70]


def test_black_seal_on_a_photocopy(page):
    gray = page().paragraph().ring_seal(700, 500, 90, "上海市市场监督管理局", color=(70, 70, 70)).pixels
    (seal,) = find_seals(gray)
    assert (seal.color, seal.shape) == ("black", "round")


def test_faded_seal_on_tinted_paper(page):
    drawn = page(paper=(190, 200, 215)).ring_seal(600, 400, 100, "上海市市场监督管理局", color=(205, 160, 170))
    assert [s.shape for s in find_seals(drawn.pixels)] == ["round"]


def test_photographed_from_the_side_is_still_a_seal(page):
    image = page().ring_seal(500, 350, 110, "上海市市场监督管理局").pixels
    corners = np.array([[0, 0], [1000, 0], [1000, 700], [0, 700]], np.float32)
    seen = np.array([[80, 40], [960, 0], [1000, 690], [0, 600]], np.float32)
    (seal,) = find_seals(
        cv2.warpPerspective(image, cv2.getPerspectiveTransform(corners, seen), (1000, 700), borderValue=(250,) * 3)
    )
    assert seal.color == "red"


def test_oval_seal(page):
    drawn = page()
    drawn.draw.ellipse((500, 400, 700, 540), outline=(205, 30, 35), width=5)
    drawn.text(530, 455, "发票专用章", 28, (205, 30, 35))
    (seal,) = find_seals(drawn.pixels)
    assert seal.shape == "oval"
    assert ellipse_of(seal).x == pytest.approx(600, abs=5)


def test_square_stamp(page):
    drawn = page()
    drawn.draw.rectangle((500, 400, 680, 480), outline=(205, 30, 35), width=4)
    drawn.text(515, 420, "合同专用章", 30, (205, 30, 35))
    (seal,) = find_seals(drawn.pixels)
    assert (seal.shape, seal.color) == ("square", "red")


def test_filled_emblem_title_and_underline_are_no_seals(page):
    drawn = page()
    drawn.draw.ellipse((440, 20, 560, 140), fill=(200, 30, 30))
    drawn.draw.ellipse((480, 60, 520, 100), fill=(240, 200, 60))
    drawn.text(330, 160, "营业执照", 80, (200, 40, 30))
    drawn.draw.line((100, 400, 420, 404), fill=(220, 20, 20), width=8)
    assert find_seals(drawn.pixels) == []


def test_a_face_is_no_seal(page):
    drawn = page(paper=(205, 215, 225))
    drawn.draw.ellipse((600, 200, 690, 310), fill=(225, 180, 160), outline=(90, 60, 50), width=3)
    drawn.draw.ellipse((625, 240, 637, 250), fill=(40, 30, 30))
    drawn.draw.ellipse((655, 240, 667, 250), fill=(40, 30, 30))
    assert find_seals(drawn.pixels) == []


def test_a_grayscale_page_has_no_red_seal(page):
    gray = cv2.cvtColor(page().ring_seal(600, 400, 90, "上海市市场监督管理局").pixels, cv2.COLOR_RGB2GRAY)
    assert [s.color for s in find_seals(cv2.cvtColor(gray, cv2.COLOR_GRAY2RGB))] == ["black"]


def test_box_and_ellipse_are_inverse():
    for ellipse in (Ellipse(100, 80, 50, 50, 0.0), Ellipse(100, 80, 60, 40, 0.3), Ellipse(100, 80, 40, 60, -0.5)):
        back = ellipse.box()
        across, down = np.subtract(back[1], back[0]), np.subtract(back[3], back[0])
        area = abs(across[0] * down[1] - across[1] * down[0])
        assert area == pytest.approx(4 * ellipse.a * ellipse.b)
        assert np.mean(back, axis=0) == pytest.approx((100, 80))
