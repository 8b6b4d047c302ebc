"""Datasets: planned, written in chunks by any number of processes, checked, and only then given a manifest."""

from certloop.synth.dataset.make import make

__all__ = ["make"]
