"""What can go wrong when documents are made, each with a stable code and a sentence that says what to do.

SynthError
├── LayoutError       a layout file is not well formed
├── FontMissingError  no face of a role is installed
├── GlyphMissingError no face of a role can draw a character (never a tofu box)
├── TextFitError      a text does not fit its box even when shrunk as far as allowed
├── ProfileError      an unknown or malformed perturbation profile
├── DatasetError      a dataset folder that cannot be written, resumed or trusted
├── WriterError       the language model that writes values is unreachable or answers nonsense
├── PseudonymiseError a document that cannot be drawn anew with other values
└── OutputError       a file that cannot be read or written, or whose name makes no sense
"""

from __future__ import annotations

from certloop.agentrl.errors import CertloopError


class SynthError(CertloopError):
    """Base of the data engine's errors."""

    code = "synth_error"


class LayoutError(SynthError, ValueError):
    code = "layout_invalid"


class FontMissingError(SynthError, LookupError):
    code = "font_missing"


class GlyphMissingError(SynthError, LookupError):
    code = "glyph_missing"


class TextFitError(SynthError, ValueError):
    code = "text_does_not_fit"


class ProfileError(SynthError, ValueError):
    code = "profile_invalid"


class DatasetError(SynthError, OSError):
    code = "dataset_failed"

    def __str__(self) -> str:
        return self.message


class WriterError(SynthError, RuntimeError):
    code = "value_writer_failed"


class PseudonymiseError(SynthError, ValueError):
    code = "pseudonymise_failed"


class OutputError(SynthError, OSError):
    code = "output_failed"

    def __str__(self) -> str:
        return self.message
