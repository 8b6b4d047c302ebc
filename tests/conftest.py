"""What every test runs under: one thread, no network, no settings from the developer's shell, reproducible random examples."""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before numpy, onnxruntime or torch are loaded
    os.environ[_name] = "1"
os.environ |= {"HF_HUB_OFFLINE": "1", "NO_ALBUMENTATIONS_UPDATE": "1", "TOKENIZERS_PARALLELISM": "false"}
for _name in [n for n in os.environ if n.startswith("CERTLOOP_") and n != "CERTLOOP_DEVPACK"]:
    del os.environ[_name]

import ipaddress
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent

hypothesis.settings.register_profile("certloop", deadline=None, derandomize=True, max_examples=100, print_blob=False)
hypothesis.settings.load_profile("certloop")


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread() -> Iterator[None]:
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    yield


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    """A test that reaches for another machine fails; loopback and Unix sockets are fine."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            raise AssertionError("a test tried to reach the network")
        connect(self, address)

    socket.socket.connect = guarded  # type: ignore[method-assign,assignment]
    yield
    socket.socket.connect = connect  # type: ignore[method-assign]


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--template-path", action="append", default=[], help="also check the document types of this folder")
