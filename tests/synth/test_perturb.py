"""Boxes follow every geometric step; what cannot be read any more is said to be so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from certloop.synth.errors import ProfileError
from certloop.synth.fields.vocabulary import read_data
from certloop.synth.golden import golden_path
from certloop.synth.label import make_sample
from certloop.synth.perturb import STEPS, Profile, load_profile, treat
from certloop.synth.sample import Recipe

W, H = 800, 560
SPOTS = [(150, 120), (640, 110), (170, 430), (600, 400), (400, 280)]


def marked_page() -> tuple[np.ndarray, np.ndarray]:
    """A white page with black discs, and a box round each."""
    image = np.full((H, W, 3), 255, np.uint8)
    for x, y in SPOTS:
        cv2.circle(image, (x, y), 14, (0, 0, 0), -1)
    quads = np.array([[(x - 14, y - 14), (x + 14, y - 14), (x + 14, y + 14), (x - 14, y + 14)] for x, y in SPOTS], float)
    return image, quads


GEOMETRIC: list[dict[str, Any]] = [
    {"step": "curl", "amount": 0.02},
    {"step": "fold", "depth": 0.012},
    {"step": "crumple", "depth": 0.006, "shade": 0.1},
    {"step": "place", "ground": "offwhite", "margin": 0.1, "tilt_deg": 12.0, "perspective": 0.12},
    {"step": "shrink", "long_edge": 500},
    {"step": "turn", "degrees": 90},
    {"step": "turn", "degrees": 180},
    {"step": "turn", "degrees": 270},
    {"step": "app_frame"},
]


CASES = [[step] for step in GEOMETRIC] + [GEOMETRIC[:6], GEOMETRIC]


@pytest.mark.parametrize("steps", CASES, ids=lambda steps: "+".join(s["step"] for s in steps))
def test_boxes_follow(steps: list[dict[str, Any]]) -> None:
    image, quads = marked_page()
    for seed in range(4):
        out = treat(image, quads, [f"f{i}" for i in range(len(quads))], Profile("test", "", tuple(steps)), seed)
        for quad in out.quads:
            x, y = quad.mean(axis=0)
            radius = np.linalg.norm(quad[1] - quad[0]) / 2
            x0, y0 = int(x - 2 * radius), int(y - 2 * radius)
            part = out.image[max(0, y0) : int(y + 2 * radius), max(0, x0) : int(x + 2 * radius)].mean(axis=2)
            rows, columns = np.where(part < 90)
            assert len(rows), steps
            assert abs(columns.mean() + max(0, x0) - x) < 2.0 and abs(rows.mean() + max(0, y0) - y) < 2.0


def test_turning_back_by_what_the_label_says_makes_the_page_upright() -> None:
    image, quads = marked_page()
    for degrees in (90, 180, 270):
        out = treat(image, quads, ["a"] * len(quads), Profile("t", "", ({"step": "turn", "degrees": degrees},)), 0)
        assert np.array_equal(np.rot90(out.image, -out.rotate_cw // 90), image)


def test_a_masked_value_is_null_in_the_label_and_gone_from_the_image() -> None:
    profile = Profile("t", "", ({"step": "mask", "kind": "black", "fields": 3},), "png")
    sample = make_sample(Recipe("business_licence", 4, 900, layouts=("horizontal_2019",)), profile)
    assert len(sample.label["unreadable"]) >= 3  # a mask may also cover a part of its neighbour
    assert all(sample.label["fields"][name] is None for name in sample.label["unreadable"])
    black = 0
    for name in sample.label["unreadable"]:
        for polygon in sample.label["boxes"][name]["lines"]:
            (x0, y0), _, (x1, y1), _ = polygon
            black += sample.image[int(y0) + 2 : int(y1) - 2, int(x0) + 2 : int(x1) - 2].max() < 20
    assert black >= 3


def test_glare_a_finger_and_a_cut_edge_are_noticed() -> None:
    image, quads = marked_page()
    keys = [f"f{i}" for i in range(len(quads))]
    verdicts = set()
    for seed in range(12):
        for step in ({"step": "glare", "strength": 1.0, "size": 0.2}, {"step": "finger", "size": 0.25}):
            verdicts |= set(treat(image, quads, keys, Profile("t", "", (step,)), seed).readable.values())
    assert verdicts == {"readable", "hard", "unreadable"} or verdicts == {"readable", "unreadable"}
    cut = {"step": "place", "ground": "grey", "margin": -0.3, "tilt_deg": 0.0, "perspective": 0.0}
    assert "unreadable" in treat(image, quads, keys, Profile("t", "", (cut,)), 0).readable.values()


@pytest.mark.parametrize("name", list(read_data("profiles")))
def test_every_profile_runs_and_is_reproducible(name: str) -> None:
    profile = load_profile(name)
    for seed in (1, 2):
        first, second = (make_sample(Recipe("business_licence", seed, 700), profile) for _ in range(2))
        assert first.encoded() == second.encoded()
        assert first.label == second.label
        steps = [s["step"] for s in first.label["perturbations"]]
        assert set(steps) <= set(STEPS)


def test_profiles_are_checked_before_anything_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="known: clean"):
        load_profile("dusty")
    path = tmp_path / "p.toml"
    cases = {"[a]\nsteps=[{step='melt'}]": "unknown step", "[a]\nsteps=[{step='blur'}]": "lacks sigma", "[a": "p.toml"}
    for text, words in cases.items():
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ProfileError, match=words):
            load_profile("a", path)
    moving = Profile("t", "", ({"step": "albumentations", "transform": "Affine"},))
    image, quads = marked_page()
    with pytest.raises(ProfileError, match="leave the boxes behind"):
        treat(image, quads, ["a"] * len(quads), moving, 0)


def test_albumentations_brings_no_torch_into_a_worker() -> None:
    code = (
        "import sys; from certloop.synth.perturb.surface import _library;"
        "assert _library().MotionBlur and 'torch' not in sys.modules; import torch; assert torch.zeros(1).item() == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_golden_paths_follow_what_was_done() -> None:
    """METHODS.md section 1.3."""
    assert golden_path(sealed=False, qr=False) == ["ocr", "validate", "emit_json"]
    assert golden_path(sealed=True, qr=False) == ["ocr", "zoom", "ocr", "validate", "emit_json"]
    assert golden_path(sealed=False, qr=True) == ["ocr", "qr_decode", "validate", "emit_json"]
    assert golden_path(sealed=False, qr=False, turned=True)[0] == "rotate"


def test_labels_have_the_format_of_a_labels_file() -> None:
    sample = make_sample(Recipe("business_licence", 2, 800, layouts=("important_hint",)), load_profile("clean"))
    label = sample.label
    assert label["doc_type"] == "营业执照"
    assert {"统一社会信用代码", "名称", "类型"} <= set(label["fields"])
    assert {"经营范围", "注册资本"} <= set(label["absent_fields"])
    assert not set(label["fields"]) & set(label["absent_fields"])
    assert label["uncertain"] == [] and isinstance(label["traps"], list) and label["rotate_cw_after_exif"] == 0
    other = make_sample(Recipe("invoice", 2, 800), load_profile("clean")).label
    assert other["fields"] == {} and other["type_id"] == ""
