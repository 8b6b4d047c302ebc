"""The auditor's queue and screen: an element of our own that calls ``/v1`` as whoever is logged in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from certloop.serve.desk.context import Desk

TITLE = ("人工审核", "Review")


def build(desk: Desk) -> None:
    import gradio as gr

    gr.HTML("<certloop-review></certloop-review>", padding=False, elem_id="review", min_height=480)
