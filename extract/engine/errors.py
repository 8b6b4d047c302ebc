"""What can go wrong between a reader and its model. Messages name settings, files and codes, never what a page says.

ModelError                  model_error         base
├── ModelUnavailableError   model_unavailable   no model there: a folder or package that is missing, a server that is down
├── ModelTimeoutError       model_timeout       a server that took longer than the setting allows
├── ModelResponseError      model_response      a server that answered an error, or something that is no chat completion
├── ModelStreamError        model_stream_cut    a server that stopped in the middle of an answer
└── AdapterRefusedError     adapter_refused     an adapter that is damaged, unsafe, or made for another base model
"""

from __future__ import annotations

from certloop.agentrl.errors import CertloopError


class ModelError(CertloopError, RuntimeError):
    """Base: the model that was to read gave no answer. The file may be read again later."""

    code = "model_error"


class ModelUnavailableError(ModelError):
    code = "model_unavailable"


class ModelTimeoutError(ModelError, TimeoutError):
    code = "model_timeout"

    def __str__(self) -> str:
        return self.message


class ModelResponseError(ModelError):
    """``status`` is the HTTP status, 0 where the answer itself was at fault."""

    code = "model_response"

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ModelStreamError(ModelError, ConnectionError):
    code = "model_stream_cut"

    def __str__(self) -> str:
        return self.message


class AdapterRefusedError(ModelError, ValueError):
    code = "adapter_refused"
