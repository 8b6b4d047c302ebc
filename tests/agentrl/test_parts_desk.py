"""The parts desk from task to training row: environment, rewards, signals, store, memory and loop know no other domain."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from certloop.agentrl.env import Episode, EpisodeConfig, Fault, run_group, scripted_faults
from certloop.agentrl.loop import Candidate, Plan, Run, Runs, RunState, SelectionConfig, choose
from certloop.agentrl.memory import Memory, MemoryConfig, check_text
from certloop.agentrl.rewards import group_advantages
from certloop.agentrl.signals import (
    Origin,
    Reason,
    SecondRead,
    Signal,
    Source,
    fuse,
    judge_signal,
    next_message_advantages,
    next_message_signals,
    review_signals,
    validator_signals,
)
from certloop.agentrl.store import Store, TenantStore, add_signals, create_snapshot
from certloop.agentrl.store.exporters.answers import fused_reward
from certloop.agentrl.store.exporters.tinker import tinker_rl_datum
from certloop.agentrl.trajectory import Consent, Provenance, Sampling
from tests.agentrl.desk import TokenClerk, parts_task

WHO = Provenance("desk", Consent.TENANT, "learning", "policy 1", "harness 1", "prompt 1", "1", "snapshot 1", ("event 1",))
RIGHT = {"metres": "2.54"}


def at(hour: int) -> str:
    return f"2026-03-01T{hour:02d}:00:00+00:00"


@pytest.fixture
def group() -> list[Episode]:
    """Four episodes of one task; in the first the card was changed on its way, and the answer is wrong."""
    config = EpisodeConfig(WHO, sampling=Sampling(0.6, 0.95))
    weather = {0: scripted_faults({0: Fault.CHANGED})}
    return run_group(
        parts_task(),
        TokenClerk(),
        config,
        4,
        group_id="g",
        created_at=at(8),
        faults=lambda i: weather.get(i, scripted_faults({})),
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/store.db") as opened:
        yield opened


@pytest.fixture
def desk(store: Store, group: list[Episode]) -> TenantStore:
    tenant = store.for_tenant("desk")
    with tenant.batch("desk") as batch:
        for episode in group:
            batch.add_trajectory(episode.trajectory)
    return tenant


def said(episode: Episode) -> dict[str, str]:
    return {name: str(value) for name, value in json.loads(episode.trajectory.final_json or "").items()}


def spoken(episode: Episode) -> list[Signal]:
    """A customer complains, a judge likes the answer, a rule fails and a second look says why."""
    trajectory = episode.trajectory
    origin = Origin(trajectory.traj_id, "customer", at(9))
    message = next_message_signals(origin, "不对，metres应为2.54", labels={"metres": ["metres"]}, trajectory=trajectory)
    judge = judge_signal(Origin(trajectory.traj_id, "judge 1", at(9)), 0.8)
    look = SecondRead("tape measure", "2.54")
    rule = validator_signals(
        Origin(trajectory.traj_id, "rules", at(9)), "metres", said(episode)["metres"], hard_fail=True, second_reads=[look]
    )
    return [*message, judge, *rule]


def test_episodes_are_stored_as_they_were_with_every_version(desk: TenantStore, group: list[Episode]) -> None:
    for episode in group:
        kept = desk.trajectory(episode.trajectory.traj_id).trajectory
        assert kept == episode.trajectory
        assert (kept.policy_version, kept.harness_version, kept.prompt_version) == ("policy 1", "harness 1", "prompt 1")
        assert (kept.memory_snapshot_id, kept.overlay_event_ids, kept.sampling) == (
            "snapshot 1",
            ("event 1",),
            Sampling(0.6, 0.95),
        )
    rewards = [episode.reward.reward for episode in group if episode.reward is not None]
    assert rewards == [pytest.approx(0.1), 1.0, 1.0, 1.0]
    assert group_advantages(rewards) == pytest.approx([-1.7320508] + [0.5773503] * 3)


def test_feedback_becomes_a_reward_and_a_late_review_overrides_it_once(desk: TenantStore, group: list[Episode]) -> None:
    wrong, traj_id = group[0], group[0].trajectory.traj_id
    add_signals(desk, spoken(wrong), actor="desk")
    before = fuse(desk.trajectory(traj_id).signals)
    assert before.trajectory.value == pytest.approx((0.7 * 0.9 * -1 + 0.3 * 0.8) / (0.7 * 0.9 + 0.3))
    assert (before.fields["metres"].value, before.fields["metres"].reason) == (-1.0, "confirmed_hard_fail")
    review = review_signals(Origin(traj_id, "li", at(20)), said(wrong), RIGHT, trajectory=wrong.trajectory)
    for _ in range(2):  # delivered twice
        add_signals(desk, review, actor="li")
    stored = desk.trajectory(traj_id)
    after = fuse(stored.signals)
    assert len(stored.signals) == len(spoken(wrong)) + len(review)
    alike = 1 - sum(a != b for a, b in zip(said(wrong)["metres"], "2.54", strict=True)) / 4
    assert after.trajectory.value == pytest.approx(alike**2)  # the F1 of one field
    (override,) = [o for o in after.overrides if o.field is None]
    assert (override.actor, override.at) == ("li", at(20))
    assert {signal.source for signal in override.replaced} == {Source.IMPLICIT, Source.JUDGE}


def test_a_correction_moves_the_tokens_of_its_field_and_no_other(group: list[Episode]) -> None:
    trajectory = group[0].trajectory
    (edit,) = [
        s
        for s in review_signals(Origin(trajectory.traj_id, "li", at(20)), said(group[0]), RIGHT, trajectory=trajectory)
        if s.reason == Reason.EDIT
    ]
    assert edit.span is not None
    assert "".join(map(chr, trajectory.token_ids[slice(*edit.span)])) == said(group[0])["metres"]
    advantages = next_message_advantages(trajectory.logprobs, trajectory.loss_mask, reward=edit.value, reward_span=edit.span)
    assert [t for t, advantage in enumerate(advantages) if advantage] == list(range(*edit.span))


def test_what_was_approved_becomes_training_rows_and_a_rule(
    store: Store, desk: TenantStore, group: list[Episode], tmp_path: Path
) -> None:
    for episode in group:
        origin = Origin(episode.trajectory.traj_id, "li", at(20))
        add_signals(desk, review_signals(origin, said(episode), RIGHT, trajectory=episode.trajectory), actor="li")
    snapshot = create_snapshot(desk, tmp_path / "snapshots", actor="li", reward_of=fused_reward)
    rows = list(snapshot.rows())
    assert {json.loads(row.ground_truth or "")["metres"] for row in rows} == {2.54, "2.54"}  # as written, and as edited
    assert [row.reward == 1.0 for row in rows] == [False, True, True, True]
    datum = tinker_rl_datum(rows[0].trajectory, -1.0)
    trained = [a != 0 for a in datum["loss_fn_inputs"]["advantages"]["data"]]
    assert trained == [bit == 1 for bit in rows[0].trajectory.loss_mask[1:]]

    clock = lambda: datetime(2026, 3, 2, tzinfo=UTC)  # noqa: E731
    memory = Memory.open(store.engine, MemoryConfig({"card": lambda body: void(check_text(str(body["look_at"])))}), clock)

    def select(run: Run) -> Mapping[str, Any]:
        candidates = [
            Candidate(
                row.trajectory.traj_id, "desk", row.trajectory.doc_type, f"item {n}", row.ground_truth or "", f"shape {n}",
                consented=row.consent is not Consent.NONE,
            )
            for n, row in enumerate(rows)
        ]  # fmt: skip
        return {"rows": [row_id for row_id, _ in choose(candidates, SelectionConfig(budget=10)).rows]}

    def learn(run: Run) -> Mapping[str, Any]:
        proof = run.results["select"]["rows"]
        rule = memory.add("desk", "card", "parts_desk", {"look_at": "the back"}, evidence=proof, actor="li", replay=void)
        return {"rule": rule.item_id}

    runs = Runs.open(store.engine, [Plan("learn", [("select", select), ("learn", learn)])], owner="p", clock=clock)
    run = runs.start("learn", "desk", "four approvals")
    while runs.advance():
        pass
    assert runs.run(run.run_id).state is RunState.DONE
    (rule,) = memory.in_use("desk", "parts_desk")
    assert set(rule.evidence) == {episode.trajectory.traj_id for episode in group}


def void(_: object) -> None: ...
