"""Uploading and looking at results: an element of our own that calls ``/v1`` as whoever is logged in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from certloop.serve.desk.context import Desk

TITLE = ("上传识别", "Upload")


def build(desk: Desk) -> None:
    import gradio as gr

    gr.HTML("<certloop-upload></certloop-upload>", padding=False, elem_id="upload", min_height=480)
