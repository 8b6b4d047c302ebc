"""What is trained on, and why the rest is not; when a run is due."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.loop import Candidate, Learned, LeftOut, LoopError, SelectionConfig, TriggerConfig, choose, look


def row(number: int, **fields: object) -> Candidate:
    values: dict[str, object] = {
        "row_id": f"r{number:04d}", "tenant": "acme", "group": "licence", "item": f"i{number}", "answer": f"a{number}",
        "shape": f"s{number}", "consented": True,
    }  # fmt: skip
    return Candidate(**values | fields)  # type: ignore[arg-type]


CONFIG = SelectionConfig(budget=100)


def test_every_row_is_chosen_or_has_a_reason() -> None:
    rows = [
        row(1),
        row(2, consented=False),
        row(3, synthetic=True, consented=False),
        row(4, source="bad-manifest"),
        row(5, reliability=0.5),
        row(6, item="i1", answer="a1"),
    ]
    found = choose(rows, CONFIG, quarantined=["bad-manifest"])
    assert {row_id for row_id, _ in found.rows} == {"r0001", "r0003"}
    assert found.left_out == {
        "r0002": LeftOut.CONSENT,
        "r0004": LeftOut.QUARANTINED,
        "r0005": LeftOut.UNRELIABLE,
        "r0006": LeftOut.DUPLICATE,
    }
    assert found.reasons == {"near_duplicate": 1, "no_consent": 1, "quarantined": 1, "unreliable_witness": 1}


def test_contradictory_witnesses() -> None:
    def says(number: int, answer: str, reliability: float = 1.0) -> Candidate:
        return row(number, item="page", answer=answer, reliability=reliability)

    assert [r for r, _ in choose([says(1, "x"), says(2, "x"), says(3, "y")], CONFIG).rows] == ["r0001"]
    assert [r for r, _ in choose([says(1, "x", 0.85), says(2, "y", 0.95)], CONFIG).rows] == ["r0002"]
    assert choose([says(1, "x"), says(2, "y")], CONFIG).reasons == {"contradicted": 2}
    assert len(choose([says(1, "x"), replace(says(2, "y"), tenant="other")], CONFIG).rows) == 2


def test_no_tenant_can_flood_a_shared_model() -> None:
    rows = [row(n, tenant="flood") for n in range(80)] + [row(100 + n, tenant=f"t{n % 4}") for n in range(20)]
    shared = choose(rows, CONFIG)
    given_ = Counter("flood" if int(r[1:]) < 80 else "others" for r, _ in shared.rows)
    assert given_["flood"] / given_.total() <= 0.34
    assert given_["others"] == 20
    assert shared.reasons == {"tenant_cap": 80 - given_["flood"]}
    assert len(choose(rows, CONFIG, shared=False).rows) == 100
    assert len(choose([row(n) for n in range(50)], CONFIG).rows) == 50


def test_real_hard_and_long_rows_come_first() -> None:
    plain = [row(n, synthetic=True) for n in range(400)]
    special = {
        "real": [row(1000 + n) for n in range(100)],
        "hard": [row(2000 + n, synthetic=True, parts=("address",)) for n in range(100)],
        "long": [row(3000 + n, synthetic=True, longest=200) for n in range(100)],
    }
    rows = plain + [r for group in special.values() for r in group]
    chosen: Counter[str] = Counter()
    for seed in range(20):
        chosen.update(r for r, _ in choose(rows, SelectionConfig(budget=200, seed=seed), hard_parts=["address"]).rows)
    share = {name: sum(chosen[r.row_id] for r in group) / len(group) for name, group in special.items()}
    base = sum(chosen[r.row_id] for r in plain) / len(plain)
    assert share["real"] > share["hard"] > base
    assert share["long"] > base


def test_replay_keeps_old_classes() -> None:
    rows = [row(n, group="new") for n in range(300)] + [row(1000 + n, group=f"old{n % 3}") for n in range(300)]
    chosen = choose(rows, SelectionConfig(budget=100, replay=0.3), focus=["new"])
    groups = Counter("new" if int(r[1:]) < 1000 else "old" for r, _ in chosen.rows)
    assert groups == {"new": 70, "old": 30}


def test_the_configuration_is_checked() -> None:
    assert SelectionConfig.from_mapping({"budget": 7}).budget == 7
    for bad in ({"bugdet": 7}, {"replay": 1.5}, {"budget": -1}, {"budget": "x"}):
        with pytest.raises(LoopError):
            SelectionConfig.from_mapping(bad)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=40), st.integers(0, 30)
)
def test_nothing_is_lost_and_the_budget_holds(spec: list[tuple[int, int, int, bool]], budget: int) -> None:
    rows = [
        row(n, item=f"i{item}", tenant=f"t{tenant}", answer=f"a{answer}", consented=ok)
        for n, (item, tenant, answer, ok) in enumerate(spec)
    ]
    config = SelectionConfig(budget=budget)
    found = choose(rows, config)
    names = [row_id for row_id, _ in found.rows]
    assert sorted([*names, *found.left_out]) == [r.row_id for r in rows]
    assert len(names) <= budget
    assert found == choose(list(reversed(rows)), config)


NOW = datetime(2026, 3, 10, tzinfo=UTC)
DAY = timedelta(days=1)


def test_when_a_run_is_due() -> None:
    config = TriggerConfig(min_new=100)
    assert look(Learned(100, None), NOW, config).due
    few = look(Learned(99, NOW - DAY), NOW, config)
    assert (few.due, few.reason) == (False, "99 of 100 new approved answers: too few, waiting")
    assert not look(Learned(500, NOW - timedelta(minutes=5)), NOW, config).due
    assert look(Learned(3, NOW - 8 * DAY), NOW, config).due
    assert not look(Learned(0, NOW - 80 * DAY), NOW, config).due
    assert not look(Learned(500, NOW + DAY), NOW, config).due  # the clock went back


def test_a_class_that_fails_is_named() -> None:
    learned = Learned(20, NOW - DAY, {"drug": (20, 40), "food": (39, 40)}, {"drug": (95, 100), "food": (96, 100)})
    found = look(learned, NOW)
    assert (found.due, found.focus) == (True, ("drug",))
    assert not look(replace(learned, classes={"drug": (5, 10)}), NOW).due  # too few to say
