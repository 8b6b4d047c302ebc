"""Blank forms from photographs and copies: perspective and black seals go, the form's own words stay."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from certloop.cli import app
from certloop.synth.blank import BlankError, erase, make_blank
from certloop.synth.label import make_sample
from certloop.synth.perturb import Profile, load_profile
from certloop.synth.rectify import find_page, flatten
from certloop.synth.sample import Recipe

DESK = Profile(
    "desk",
    "",
    (
        {"step": "place", "ground": ["wood", "dark", "cloth"], "margin": [0.03, 0.08], "tilt_deg": [-7, 7], "perspective": 0.1},
        {"step": "uneven_light", "strength": [0.1, 0.3]},
        {"step": "noise", "sigma": [1.0, 3.0]},
    ),
)


@pytest.mark.parametrize("seed", range(6))
def test_the_corners_of_a_photographed_page_are_found(seed: int) -> None:
    sample = make_sample(Recipe(("business_licence", "food_operation_permit")[seed % 2], seed, 800), DESK)
    corners = find_page(sample.image)
    assert corners is not None
    assert np.abs(corners - np.array(sample.label["page_polygon"])).max() < 0.01 * max(sample.image.shape)
    flat, flattened = flatten(sample.image)
    page = sample.label["page_polygon"]
    assert flattened and abs(flat.shape[1] - np.hypot(page[1][0] - page[0][0], page[1][1] - page[0][1])) < 0.08 * flat.shape[1]


@pytest.mark.parametrize("layout", ["horizontal_2019", "vertical_2015", "old_horizontal"])
def test_the_border_printed_on_a_scan_is_no_page(layout: str) -> None:
    image = make_sample(Recipe("business_licence", 3, 900, layouts=(layout,)), load_profile("clean")).image
    assert flatten(image)[1] is False


def test_a_photograph_becomes_a_flat_blank(tmp_path: Path) -> None:
    sample = make_sample(Recipe("business_licence", 21, 1200, layouts=("horizontal_2019",)), DESK)
    (tmp_path / "photo.png").write_bytes(sample.encoded())
    blank = make_blank(tmp_path / "photo.png", "business_licence", tmp_path)
    picture = cv2.imread(str(blank.image))
    assert blank.flattened and {"credit_code", "name", "scope"} <= {p.field for p in blank.places}
    # each corner was moved by up to a twentieth of the page, so a side's mean length may be a tenth off
    assert abs(picture.shape[0] / picture.shape[1] / 0.705 - 1) < 0.1, "the proportions of the form"


def test_a_black_seal_goes_and_the_label_under_it_stays() -> None:
    page = np.full((300, 300, 3), 245, np.uint8)
    cv2.circle(page, (150, 150), 80, (60, 60, 64), 4)
    cv2.circle(page, (150, 150), 20, (60, 60, 64), -1)
    cv2.putText(page, "LABEL", (110, 105), cv2.FONT_HERSHEY_SIMPLEX, 0.8, (40, 40, 40), 2)
    square = np.array([(66, 66), (234, 66), (234, 234), (66, 234)], np.float64)
    word = np.array([(105, 80), (205, 80), (205, 112), (105, 112)], np.float64)
    clean = erase(page, {"value": [], "seal": [], "qr": [], "black_seal": [square], "kept": [word]})
    assert clean[140:160, 140:160].min() > 200, "the star"
    assert clean[220:240, 140:160].min() > 200, "the lower rim"
    assert (clean[85:105, 110:190] < 100).sum() > 300, "the label"


def test_the_seal_of_a_copy_is_taken_off(tmp_path: Path) -> None:
    profile = Profile("grey", "", ({"step": "photocopy", "contrast": 1.2, "fade": 0.0, "specks": 0.0},))
    sample = make_sample(Recipe("business_licence", 8, 1200, layouts=("vertical_2015",)), profile)
    (tmp_path / "copy.png").write_bytes(sample.encoded())
    blank = make_blank(tmp_path / "copy.png", "business_licence", tmp_path)
    assert blank.seals == 1 and not blank.flattened
    picture = cv2.cvtColor(cv2.imread(str(blank.image)), cv2.COLOR_BGR2GRAY)
    (x0, y0), _, (x1, y1), _ = sample.label["seals"][0]["polygon"]
    before, after = ((i[int(y0) : int(y1), int(x0) : int(x1)] < 150).mean() for i in (sample.image[..., 0], picture))
    assert after < before / 4
    assert 'colour = "black"' in blank.layout.read_text(encoding="utf-8")


def test_an_identity_card_is_no_blank_of_a_licence(tmp_path: Path) -> None:
    sample = make_sample(Recipe("id_card", 4, 1200), load_profile("clean"))
    (tmp_path / "card.png").write_bytes(sample.encoded())
    with pytest.raises(BlankError, match="looks like id_card") as refused:
        make_blank(tmp_path / "card.png", "business_licence", tmp_path / "out")
    assert refused.value.code == "blank_failed"
    assert not (tmp_path / "out").exists()


def test_the_command_says_what_stays_in_the_picture(tmp_path: Path) -> None:
    sample = make_sample(Recipe("id_card", 4, 1200), load_profile("clean"))
    (tmp_path / "card.png").write_bytes(sample.encoded())
    told = ["synth", "blank", str(tmp_path / "card.png"), "--out", str(tmp_path)]
    ran = CliRunner().invoke(app, [*told, "--type", "id_card"])
    assert ran.exit_code == 0, ran.output
    assert "a portrait" in ran.stderr and "erase them by hand" in ran.stderr
    ran = CliRunner().invoke(app, [*told, "--type", "business_licence", "--name", "forced", "--force"])
    assert ran.exit_code == 0, ran.output
    assert "not found, add by hand" in ran.stderr and "STILL IN THE PICTURE" in ran.stderr
