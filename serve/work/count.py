"""A document that was read, as numbers: how long it took where, and which rules failed."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from certloop.extract.recording import check_signals

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.work.claims import Claim
    from certloop.serve.work.readers import PagesRead


def count(service: Service, mine: Claim, read: PagesRead, stored_s: float) -> None:
    """``stored_s``: how long its end took to write."""
    metrics = service.metrics
    total_s = max(0.0, (service.clock() - datetime.fromisoformat(mine.accepted_at)).total_seconds())
    metrics.stage("read", read.wall_s)
    metrics.stage("store", stored_s)
    metrics.stage("total", total_s)
    metrics.stage("wait", max(0.0, total_s - read.wall_s - stored_s))
    for number, document in enumerate(read.result.documents):
        verdicts = [*document.validations, *(v for field in document.fields.values() for v in field.validations)]
        for verdict in verdicts:
            if verdict.failed:
                metrics.validator_fail(document.doc_type, verdict.rule)
        metrics.signals(check_signals(document, f"{mine.document_id}.{number}"))
