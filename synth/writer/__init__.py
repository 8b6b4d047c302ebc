"""A language model as the writer of values, with the grammar as the reported fallback."""

from certloop.synth.writer.client import Written, write_values

__all__ = ["Written", "write_values"]
