"""Text similarity against a textbook edit distance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.rewards import levenshtein, text_similarity
from certloop.agentrl.rewards.text import MAX_EXACT_CHARS

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
