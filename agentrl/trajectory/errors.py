"""What can be wrong with a trajectory. Each class has its own stable code; messages hold positions and counts, never content.

TrajectoryError            trajectory_invalid    an identifier, date, hash or JSON part that is not well formed
├── VersionError           trajectory_version    written by another schema version
├── StepError              steps_invalid         steps out of order, or outside the tokens
├── TokenLengthError       token_lengths         token ids, log-probabilities and mask differ in length
├── SegmentError           segments_do_not_tile  segments leave a gap, overlap, or end elsewhere than the tokens
├── MaskError              mask_not_assistant    the mask is not 1 exactly on the assistant's tokens
├── LogprobError           logprob_invalid       a trained token without a finite log-probability <= 0
└── NotFiniteError         not_finite            NaN or infinity where a number is stored
"""

from __future__ import annotations

from certloop.agentrl.errors import CertloopError


class TrajectoryError(CertloopError, ValueError):
    """A trajectory that must not be stored."""

    code = "trajectory_invalid"


class VersionError(TrajectoryError):
    code = "trajectory_version"


class StepError(TrajectoryError):
    code = "steps_invalid"


class TokenLengthError(TrajectoryError):
    code = "token_lengths"


class SegmentError(TrajectoryError):
    code = "segments_do_not_tile"


class MaskError(TrajectoryError):
    code = "mask_not_assistant"


class LogprobError(TrajectoryError):
    code = "logprob_invalid"


class NotFiniteError(TrajectoryError):
    code = "not_finite"
