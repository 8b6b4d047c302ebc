"""What can be wrong with a calibration."""

from __future__ import annotations

from certloop.serve.errors import ServeError


class CalibrationError(ServeError, ValueError):
    """A calibration that is not well formed, or data that none can be fitted on."""

    code = "calibration_invalid"
