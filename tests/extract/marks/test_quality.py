from __future__ import annotations

import cv2
import numpy as np
import pytest

from certloop.extract.engine.lines import TextLine
from certloop.extract.marks import quality_flags

NAMES = {
    "blur",
    "glare",
    "border_incomplete",
    "copy",
    "recapture",
    "screenshot",
    "watermark",
    "occlusion",
    "electronic",
}


def line(left, top, right, bottom, text="经营范围技术开发技术咨询计算机软件销售货物进出口"):
    return TextLine(np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32), text, 0.9)


LINES = [line(60, 80 + round(k * 35.2), 570, 112 + round(k * 35.2)) for k in range(12)]


def scanned(pixels, seed=1):
    """Paper that is not one exact tone, and a colourful frame."""
    noise = np.random.default_rng(seed).normal(0, 4, pixels.shape)
    image = np.clip(pixels + noise, 0, 255).astype(np.uint8)
    image[5:25, 5:-5] = (190, 150, 60)
    image[-90:-20, 5:-5] = (190, 150, 60)
    return image


@pytest.fixture
def good(page):
    return scanned(page(paper=(225, 224, 220)).paragraph().pixels)


def test_a_good_page_has_no_flags(good):
    assert quality_flags(good, LINES) == {}


def test_flags_are_those_of_the_contract_with_confidences(page):
    flags = quality_flags(page().pixels, [line(0, 0, 300, 30, "仅供复印件电子营业执照12:30")])
    assert set(flags) <= NAMES
    assert all(0.3 < value <= 1 for value in flags.values())


def test_blur(good):
    assert quality_flags(cv2.GaussianBlur(good, (0, 0), 4), LINES)["blur"] > 0.5


def test_glare(good):
    cv2.circle(good, (500, 350), 90, (255, 255, 255), -1)
    cv2.circle(good, (700, 450), 60, (255, 255, 255), -1)
    assert quality_flags(good, LINES)["glare"] > 0.3


def test_white_paper_of_a_scan_is_no_glare(page):
    assert "glare" not in quality_flags(page(paper=(255, 255, 255)).paragraph().pixels, LINES)


def test_cut_lines(good):
    cut = [*LINES, line(-2, 300, 200, 330), line(800, 300, 1000, 330)]
    assert quality_flags(good, cut)["border_incomplete"] > 0.5


def test_grayscale_is_a_copy(good):
    gray = cv2.cvtColor(cv2.cvtColor(good, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    assert quality_flags(gray, LINES)["copy"] > 0.7


def test_a_page_that_says_so_is_a_copy(good):
    assert quality_flags(good, [*LINES, line(60, 600, 300, 630, "此复印件仅用于开户")])["copy"] > 0.9


def test_watermark_text_askew(good):
    slanted = TextLine(np.array([[100, 500], [400, 300], [420, 330], [120, 530]], np.float32), "仅供办理开户使用", 0.9)
    assert quality_flags(good, [*LINES, slanted])["watermark"] > 0.6


def test_moire_of_a_screen(good):
    y, x = np.mgrid[0 : good.shape[0], 0 : good.shape[1]]
    grid = 14 * np.sin(2 * np.pi * (0.31 * x + 0.17 * y))
    seen = np.clip(good + grid[:, :, None], 0, 255).astype(np.uint8)
    assert quality_flags(seen, LINES)["recapture"] > 0.5
    assert "recapture" not in quality_flags(good, LINES)


def test_phone_screenshot(page):
    drawn = page(500, 1000, (20, 20, 20))
    drawn.draw.rectangle((20, 250, 480, 750), fill=(230, 225, 215))
    lines = [line(200, 10, 280, 34, "下午4:20"), *[line(60, 300 + 35 * k, 440, 330 + 35 * k) for k in range(8)]]
    assert quality_flags(drawn.pixels, lines)["screenshot"] > 0.8


def test_covered_value(good):
    good[292:326, 150:500] = 0
    assert quality_flags(good, LINES)["occlusion"] >= 0.5


def test_born_digital_page(page):
    drawn = page(paper=(250, 246, 235)).paragraph()
    drawn.draw.rectangle((5, 5, 990, 30), fill=(190, 150, 60))
    assert quality_flags(drawn.pixels, LINES)["electronic"] > 0.5


@pytest.mark.parametrize("shape", [(1, 1, 3), (31, 800, 3), (40, 40, 3)])
def test_tiny_pages(shape):
    assert isinstance(quality_flags(np.full(shape, 128, np.uint8), []), dict)
