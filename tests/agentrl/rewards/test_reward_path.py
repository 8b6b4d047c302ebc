"""Path score and composite reward: the pins of METHODS §1.3 and §1.4."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.rewards import RewardError, Weights, composite_reward, efficiency, path_score

SEED = ["calendar_api", "rag_query", "email_compose", "translate"]  # the golden path of the source article
CERT = ["ocr", "zoom", "qr_decode", "validate", "emit_json"]
PATH = st.lists(st.sampled_from("abcd"), max_size=6)
UNIT = st.floats(0, 1)


@pytest.mark.parametrize(
    ("golden", "taken", "score"),
    [
        (SEED, SEED, 1.0),
        (SEED, ["search", "search", "calendar_api", "translate"], 0.3),
        (SEED, ["calendar_api", "email_compose"], 0.5),
        (SEED, SEED[::-1], 0.25),
        (SEED, [*SEED, "extra"], 0.9),
        (SEED, [], 0.0),
        (SEED, ["search"], 0.0),
        (SEED, ["calendar_api"] * 4, 0.0),
        (CERT, ["ocr", "emit_json"], 0.4),
        (CERT, ["ocr", "zoom", "validate", "emit_json"], 0.8),
        (CERT, ["emit_json"], 0.2),
        (CERT, ["zoom", "zoom", "ocr", "emit_json"], 0.3),
    ],
)
def test_pins(golden, taken, score: float) -> None:
    assert path_score(taken, [golden]) == pytest.approx(score)


def test_several_golden_paths_take_the_best() -> None:
    clean, stamped = ["ocr", "validate", "emit"], ["ocr", "zoom", "ocr", "validate", "emit"]
    assert path_score(clean, [stamped, clean]) == 1.0
    assert path_score(stamped, [stamped, clean]) == 1.0
    assert efficiency(clean, [stamped, clean]) == 1.0
    assert efficiency(stamped, [stamped, clean]) == 1.0  # measured against the path that was taken, not the shortest


def test_efficiency() -> None:
    assert efficiency([], [CERT]) == 0.0
    assert efficiency(CERT * 2, [CERT]) == 0.5
    assert efficiency(["ocr"], [CERT]) == 1.0


@pytest.mark.parametrize("golden", [[], [[]], "ocr", ["ocr"]])
def test_golden_paths_that_make_no_sense_are_refused(golden) -> None:
    with pytest.raises(RewardError):
        path_score(["ocr"], golden)


@pytest.mark.parametrize(
    ("parts", "reward"),
    [
        ((1, 1, 1, 1), 1.0),
        ((0.8, 0.3, 1, 1), 0.71),
        ((1, 0.5, 1, 1), 0.85),
        ((0.673295, 0.5, 1, 1), 0.719318),
        ((0, 1, 1, 1), 0.10),
    ],
)
def test_composite_pins(parts, reward: float) -> None:
    assert composite_reward(*parts) == pytest.approx(reward, abs=5e-7)


def test_without_the_gate_a_wrong_answer_earns_060() -> None:
    assert composite_reward(0, 1, 1, 1, gated=False) == pytest.approx(0.60)


def test_bad_parts_and_weights_are_refused() -> None:
    with pytest.raises(RewardError):
        composite_reward(1.1, 0, 0, 0)
    with pytest.raises(RewardError):
        Weights(quality=0.9)
    with pytest.raises(RewardError):
        Weights(quality=1.1, path=-0.1, efficiency=0, form=0)


@given(PATH, st.lists(PATH.filter(bool), min_size=1, max_size=3))
def test_path_score_is_bounded_perfect_on_each_golden_path_and_hurt_by_extras(taken, golden) -> None:
    assert 0.0 <= path_score(taken, golden) <= 1.0
    assert 0.0 <= efficiency(taken, golden) <= 1.0
    for path in golden:
        assert path_score(path, golden) == 1.0
    assert path_score([*taken, "extra"], golden) <= path_score(taken, golden)


@given(UNIT, UNIT, UNIT, UNIT)
def test_the_gate_bounds_the_composite_by_quality(q: float, p: float, e: float, f: float) -> None:
    reward = composite_reward(q, p, e, f)
    assert 0.0 <= reward <= min(1.0, q + 0.1)
    assert reward <= composite_reward(q, p, e, f, gated=False)


def test_importing_rewards_loads_no_scipy_and_no_other_room() -> None:
    import subprocess
    import sys

    code = (
        "import sys, certloop.agentrl.rewards\n"
        "rooms = [m for m in sys.modules if m.startswith('certloop.') and not m.startswith('certloop.agentrl')]\n"
        "assert not rooms and 'scipy' not in sys.modules and 'numpy' not in sys.modules, rooms"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("part", ["quality", "path", "efficiency", "form"])
def test_a_weight_that_is_no_number_is_refused(part: str) -> None:
    with pytest.raises(RewardError):
        Weights(**{part: float("nan")})
