"""The root of every error this product raises on purpose.

    CertloopError
    ├── UsageError           (certloop)             a command or a setting that makes no sense
    ├── TemplateError        (templates)            a document type that is not well formed
    ├── UnknownTypeError     (templates)            a document type nobody defined
    ├── UnknownKindError     (validators)           a validator kind nobody registered
    ├── IngestError          (extract.ingest)       a file that cannot become pages
    ├── EngineError          (extract.engine)       a package or a model file is missing
    ├── UnknownEngineError   (extract)              an engine that does not exist
    ├── ModelError           (extract.engine)       a model, its server or its adapter that gave no answer
    ├── ViewError            (extract.engine)       a page that no model can be shown
    ├── WorkerStartError     (extract.batch)        worker processes cannot start
    ├── GuidanceError        (extract.guidance)     a hint that is not well formed
    ├── EvaluationError      (extract.evaluation)   labels or results that cannot be compared
    ├── SynthError           (synth)                data that cannot be made
    ├── EnvironmentFault     (agentrl.env)          a task or a tool that is not well formed
    ├── SandboxUnavailable   (agentrl.rewards)      code that cannot be run within limits here
    ├── RewardError          (agentrl.rewards)      reward settings that are not well formed
    ├── TrajectoryError      (agentrl.trajectory)   a trajectory that must not be stored
    ├── SignalError          (agentrl.signals)      feedback that is not well formed
    ├── JudgeError           (agentrl.signals)      a judge that gave no usable vote
    ├── TrainError           (train)                a run that cannot be trained
    ├── LoopError            (agentrl.loop)         a run, a plan or a selection that makes no sense
    ├── RuleError            (agentrl.memory)       a rule that is not well formed, refused, or not replayed well
    ├── ReleaseError         (agentrl.release)      a release, a move or a gate's scores that make no sense
    ├── ServeError           (serve)                what the service refuses, and what can go wrong in it
    └── StoreError           (agentrl.store)        the store's address, its state, or what it refuses

The rooms' own ``errors`` modules draw what stands below these.
Each class has a stable ``code`` that callers may test for; the message says what was wrong, with what, and what to do.
Messages never hold a value read from a document: they end up in logs.
"""

from __future__ import annotations

from typing import ClassVar


class CertloopError(Exception):
    """Base of all typed errors. ``code`` is stable across releases, the message is for people."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}
