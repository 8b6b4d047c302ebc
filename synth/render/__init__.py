"""Rendering: a layout and facts become a page with the box of everything printed on it."""

from certloop.synth.render.page import Item, Job, Page, draw_page

__all__ = ["Item", "Job", "Page", "draw_page"]
