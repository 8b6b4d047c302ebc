"""Text similarity against a textbook edit distance, one by one and many at once."""

import random
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certloop.agentrl.rewards import fold, levenshtein, text_similarity
from certloop.agentrl.rewards.distances import FEW, LONGEST, distances, folded_similarities
from certloop.agentrl.rewards.text import MAX_EXACT_CHARS, folded_similarity

TEXT = st.text(alphabet="AB1名称 （(", max_size=12)


def textbook(a: str, b: str) -> int:
    previous = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        current = [i]
        for j, y in enumerate(b, 1):
            current.append(min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (x != y)))
        previous = current
    return previous[-1]


@given(TEXT, TEXT)
def test_distance_equals_the_textbook_table(a: str, b: str) -> None:
    assert levenshtein(a, b) == textbook(a, b)


@given(st.text(max_size=30), st.text(max_size=30))
def test_similarity_is_symmetric_bounded_and_one_for_itself(a: str, b: str) -> None:
    assert text_similarity(a, b) == text_similarity(b, a)
    assert 0.0 <= text_similarity(a, b) <= 1.0
    assert text_similarity(a, a) == 1.0


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [("企业名称", "名称", 0.5), ("法人", "法定代表人", 0.4), ("住所", "地址", 0.0), ("", "", 1.0), ("", "甲", 0.0),
     ("２０１５ 年（甲）", "2015年(甲)", 1.0)],
)  # fmt: skip
def test_pins_of_the_method(a: str, b: str, expected: float) -> None:
    assert text_similarity(a, b) == pytest.approx(expected, abs=1e-12)


def test_a_runaway_text_stays_bounded_and_never_gains() -> None:
    long = "经营" * MAX_EXACT_CHARS
    assert text_similarity(long, long) == 1.0
    assert text_similarity("经营", long) < 0.001
    assert text_similarity(long, long + "x") <= 1.0 - 1 / len(long)


@given(st.text(alphabet="AB1", min_size=4, max_size=7), st.text(alphabet="AB1", min_size=4, max_size=7))
def test_distance_of_texts_that_differ_in_few_places(a: str, b: str) -> None:
    n = min(len(a), len(b))
    assert levenshtein(a[:n], b[:n]) == textbook(a[:n], b[:n])


WORD = st.text(alphabet="AB名\U00020000\ud800", min_size=1, max_size=40)


@given(st.lists(st.tuples(WORD, WORD), min_size=1, max_size=6), st.integers(0, 2**32))
def test_many_distances_at_once_equal_the_textbook_table(pairs: list[tuple[str, str]], seed: int) -> None:
    pairs += [(a, _shaken(a, random.Random(seed)) or "x") for a, _ in pairs]  # near ones, whose bands are narrow
    assert list(distances(pairs)) == [textbook(a, b) for a, b in pairs]


@given(st.integers(0, 2**32), st.sampled_from(["AB", "甲乙丙丁0123456789"]), st.sampled_from([3, 12, 60, 300]))
@settings(deadline=None, max_examples=30)
def test_a_batch_of_any_size_and_length_gives_the_very_same_numbers(seed: int, alphabet: str, length: int) -> None:
    rng = random.Random(seed)
    texts = ["".join(rng.choices(alphabet, k=rng.randint(0, length))) for _ in range(3 * FEW)]
    pairs = [(text, rng.choice(texts) if rng.random() < 0.3 else _shaken(text, rng)) for text in texts]
    assert folded_similarities(pairs) == {pair: folded_similarity(*pair) for pair in pairs}


@given(st.integers(0, 2**32), st.integers(60, 260))
@settings(deadline=None, max_examples=20)
def test_moved_blocks_leave_a_narrow_band_and_are_counted_exactly(seed: int, length: int) -> None:
    rng = random.Random(seed)
    pairs = []
    for _ in range(2 * FEW):
        text = "".join(rng.choices("甲乙丙丁0123456789", k=length))
        cut, other = rng.randrange(length), rng.randrange(length)
        pairs.append((text, _shaken(text[cut:] + text[:cut], rng)))  # turned round
        pairs.append((text, text[: min(cut, other)] + text[max(cut, other) :] + text[: rng.randrange(30)]))  # a piece lost
    assert folded_similarities(pairs) == {pair: folded_similarity(*pair) for pair in pairs}


def test_a_batch_with_runaway_texts_gives_the_very_same_numbers() -> None:
    pairs = [("经营" * n, "经宫" * n) for n in (LONGEST // 2, LONGEST // 2 + 1, MAX_EXACT_CHARS)] * FEW
    assert folded_similarities(pairs) == {pair: folded_similarity(*pair) for pair in pairs}
    assert folded_similarities([]) == {}


def _shaken(text: str, rng: random.Random) -> str:
    chars = list(text)
    for _ in range(rng.randint(0, 3)):
        at = rng.randint(0, len(chars))
        chars[at : at + rng.randint(0, 1)] = rng.choice("AB名") * rng.randint(0, 1)
    return "".join(chars)


@pytest.mark.parametrize("unit", ["\u0300\u0323", "\u0f73\u0323", "\uff9e\u0f73", "\u0300 \u0323 "])
def test_a_megabyte_of_combining_marks_folds_in_no_time(unit: str) -> None:
    """Sorting them takes the square of their number: without a bound this test does not end."""
    text = "a" + unit * (1 << 19)
    folded = fold(text)
    assert len(folded) < 100
    assert fold(folded) == folded
    assert text_similarity(text, "甲") < 0.1


def test_marks_that_languages_have_are_kept_in_texts_of_any_length() -> None:
    text = "é\u0323" * 5000
    assert fold(text) == unicodedata.normalize("NFKC", text)
