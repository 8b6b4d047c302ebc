from __future__ import annotations

import numpy as np
import pytest

from certloop.extract.engine.lines import TextLine
from certloop.extract.marks import find_seals, read_ring, read_ring_text
from certloop.extract.marks.ring_text import vote
from certloop.extract.result import Seal

NAME = "上海市浦东新区市场监督管理局"


@pytest.mark.parametrize("turn", [0.0, 25.0, 90.0, 180.0])
def test_ring_text_of_a_seal_however_it_is_turned(page, engine, turn):
    image = page().ring_seal(600, 400, 110, NAME, turn=turn).pixels
    (seal,) = find_seals(image)
    text, score = read_ring_text(image, seal, engine)
    assert text == NAME
    assert score > 0.8


def test_black_print_across_a_red_seal_is_not_read_with_it(page, engine):
    drawn = page().ring_seal(600, 400, 120, NAME).text(480, 440, "2021年06月18日", 26)
    (seal,) = find_seals(drawn.pixels)
    assert read_ring(drawn.pixels, seal, engine).text == NAME


def test_black_seal(page, engine):
    image = page().ring_seal(600, 400, 110, "杭州市交通运输局", color=(60, 60, 60)).pixels
    (seal,) = find_seals(image)
    assert read_ring_text(image, seal, engine)[0] == "杭州市交通运输局"


def test_a_firm_and_an_authority_are_plausible_and_nonsense_is_flagged(page, engine):
    for name, plausible in (("苏州青禾商贸有限公司", True), ("春江花月夜流水", False)):
        image = page().ring_seal(600, 400, 110, name).pixels
        (seal,) = find_seals(image)
        reading = read_ring(image, seal, engine)
        assert (reading.text, reading.plausible) == (name, plausible)


def test_empty_ring_and_square_stamp_give_nothing(page, engine):
    drawn = page().ring_seal(600, 400, 100, "")
    box = ((500.0, 300.0), (700.0, 300.0), (700.0, 500.0), (500.0, 500.0))
    assert read_ring_text(drawn.pixels, Seal(box, "red", "round", 1.0), engine) is None
    assert read_ring_text(drawn.pixels, Seal(box, "red", "square", 1.0), engine) is None


def test_a_seal_off_the_page_or_too_small_gives_nothing(page, engine):
    image = page(100, 100).pixels
    far = ((500.0, 500.0), (700.0, 500.0), (700.0, 700.0), (500.0, 700.0))
    tiny = ((50.0, 50.0), (58.0, 50.0), (58.0, 58.0), (50.0, 58.0))
    assert read_ring_text(image, Seal(far, "red", "round", 1.0), engine) is None
    assert read_ring_text(image, Seal(tiny, "red", "round", 1.0), engine) is None


def line(text: str, score: float = 0.9, x: tuple[float, ...] | None = None) -> TextLine:
    places = x or tuple((k + 0.5) / len(text) for k in range(len(text)))
    return TextLine(np.zeros((4, 2), np.float32), text, score, places, (score,) * len(text))


def test_every_character_is_voted_on():
    reading = vote([line("杭州市市场监督局"), line("抗州市市场监督局", 0.6), line("杭州市市坊监督局", 0.6)])
    assert reading.text == "杭州市市场监督局"


def test_a_reading_with_a_hole_loses_against_a_whole_one():
    whole = "杭州市场监督局"
    holed = line("杭市场监督局", 0.99, (0.07, 0.36, 0.5, 0.64, 0.79, 0.93))
    assert vote([holed, line(whole, 0.95)]).text == whole
    assert vote([holed]).score < 0.75


def test_stars_and_digits_around_the_name_are_dropped():
    assert vote([line("★12杭州市税务局345")]).text == "杭州市税务局"


def test_nothing_readable():
    assert vote([]) is None
    assert vote([line("☆"), line("ab1")]) is None
