"""What can go wrong when a model is trained. Each class has its own stable code; messages hold names and counts, no values.

TrainError                  train_error            base
├── TrainConfigError        train_config_invalid   a run that is not well formed, or asks for what cannot be
├── TrainExtraError         train_extra_missing    the optional packages of the extra ``train`` are not installed
├── TrainDataError          train_data_invalid     training rows that are missing, incomplete, or changed under a run
├── ModelLoadError          model_unusable         a model folder that is missing or damaged, or of another architecture
│   └── AdapterBaseError    adapter_base_mismatch  an adapter that was trained on another base model
├── VocabularyError         vocabulary_mismatch    student and teacher do not share one vocabulary
├── LossError               loss_not_finite        a loss or gradient that became NaN or infinite
├── DivergedError           run_diverged           entropy or divergence from the start grew past its bound
├── RatioError              ratio_unmoved          the policy does not move inside a generation: GSPO would do nothing
├── CheckpointError         checkpoint_failed      a checkpoint that cannot be written or read (a full disk, a killed run)
├── BackendError            train_backend_failed   a backend that cannot be reached, refuses a run, or does not know it
├── TeacherError            teacher_failed         a teacher that is down, slow, or answers what cannot be used
└── DeviceMemoryError       device_memory_full     a step that does not fit the device's memory
"""

from __future__ import annotations

from certloop.agentrl.errors import CertloopError


class TrainError(CertloopError):
    """Base of the errors of training."""

    code = "train_error"


class TrainConfigError(TrainError, ValueError):
    code = "train_config_invalid"


class TrainExtraError(TrainError, ImportError):
    code = "train_extra_missing"


class TrainDataError(TrainError, ValueError):
    code = "train_data_invalid"


class ModelLoadError(TrainError, OSError):
    code = "model_unusable"

    def __str__(self) -> str:
        return self.message


class AdapterBaseError(ModelLoadError):
    code = "adapter_base_mismatch"


class VocabularyError(TrainError, ValueError):
    code = "vocabulary_mismatch"


class LossError(TrainError, ArithmeticError):
    code = "loss_not_finite"


class DivergedError(TrainError, RuntimeError):
    code = "run_diverged"


class RatioError(TrainError, RuntimeError):
    code = "ratio_unmoved"


class CheckpointError(TrainError, OSError):
    code = "checkpoint_failed"

    def __str__(self) -> str:
        return self.message


class BackendError(TrainError, RuntimeError):
    code = "train_backend_failed"


class TeacherError(TrainError, RuntimeError):
    code = "teacher_failed"


class DeviceMemoryError(TrainError, MemoryError):
    code = "device_memory_full"


def error_of(code: str, message: str) -> TrainError:
    """An error as another process told it. An unknown code gives the base class."""
    kinds = [TrainError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return next((kind for kind in kinds if kind.code == code), TrainError)(message)
