"""The child process: limits, death, hanging, lies, and what it costs."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from certloop.extract.ingest import Decoder, IngestError, IngestLimits, ingest
from certloop.extract.ingest import decoder as decoder_module


def code_of(data, decoder, **limits) -> str:
    with pytest.raises(IngestError) as caught:
        ingest(data, IngestLimits(**limits), decoder=decoder)
    return caught.value.code


def fails_while_stopped(decoder: Decoder, data: bytes, *signals: signal.Signals, **limits: float) -> str:
    """Stop the child, give it a file, send it ``signals``; return the error code."""
    ingest(data, decoder=decoder)
    pid = decoder.pid
    os.kill(pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(code_of, data, decoder, **limits)
        time.sleep(0.1)
        for number in signals:
            os.kill(pid, number)
        return answer.result(20)


def test_one_child_reads_many_files(samples, decoder):
    ingest(samples.jpeg(), decoder=decoder)
    first = decoder.pid
    with pytest.raises(IngestError):
        ingest(samples.jpeg()[:300], decoder=decoder)
    ingest(samples.pdf(samples.text_page()), decoder=decoder)
    assert decoder.pid == first


def test_without_a_decoder_a_child_is_started_and_ended(samples):
    assert len(ingest(samples.jpeg()).pages) == 1
    with pytest.raises(IngestError):
        ingest(samples.jpeg()[:300])


def test_a_killed_child_is_an_error_of_that_file_only(samples, decoder):
    assert fails_while_stopped(decoder, samples.jpeg(), signal.SIGKILL) == "decode_crashed"
    assert len(ingest(samples.jpeg(), decoder=decoder).pages) == 1


def test_a_child_that_died_between_files_is_replaced(samples, decoder):
    ingest(samples.jpeg(), decoder=decoder)
    os.kill(decoder.pid, signal.SIGSEGV)
    time.sleep(0.1)
    assert len(ingest(samples.jpeg(), decoder=decoder).pages) == 1


def test_a_hanging_child_is_killed_at_the_time_limit(samples, decoder):
    started = time.monotonic()
    assert fails_while_stopped(decoder, samples.jpeg(), timeout_s=0.3) == "decode_timeout"
    assert time.monotonic() - started < 10
    assert len(ingest(samples.jpeg(), decoder=decoder).pages) == 1


def test_the_cpu_limit_of_the_kernel_counts_as_a_timeout(samples, decoder):
    assert fails_while_stopped(decoder, samples.jpeg(), signal.SIGXCPU, signal.SIGCONT) == "decode_timeout"


def test_a_tiny_time_limit(samples, decoder):
    assert code_of(samples.png_of_zeros(8000, 8000), decoder, timeout_s=0.02) == "decode_timeout"
    assert len(ingest(samples.jpeg(), decoder=decoder).pages) == 1


def test_the_memory_limit(samples, decoder):
    data = samples.png_of_zeros(8000, 8000)
    assert code_of(data, decoder, memory_bytes=150 << 20) == "decode_memory"
    (page,) = ingest(data, decoder=decoder).pages  # the default is enough
    assert page.image.shape == (4096, 4096, 3)


def test_a_memory_limit_below_the_child_itself(samples, decoder):
    assert code_of(samples.jpeg(2000, 2000), decoder, memory_bytes=1 << 20) in {"decode_memory", "decode_crashed"}
    assert len(ingest(samples.jpeg(), decoder=decoder).pages) == 1


LIES = {
    "noise": "sys.stdout.buffer.write(b'x' * 100)",
    "nothing": "pass",
    "a page larger than allowed": """
head = lambda h, n=0: struct.pack('>II', len(json.dumps(h)), n) + json.dumps(h).encode()
page = dict(kind='page', index=0, width=9, height=9, image_width=5, image_height=5, scale=1, format='png')
page.update(dpi=None, text=[], grayscale=False)
out = sys.stdout.buffer
out.write(head({'kind': 'ready'})); out.flush()
sys.stdin.buffer.read(300)
out.write(head(page, 75) + bytes(75)); out.flush()
""",
    "an unknown error code": """
head = lambda h, n=0: struct.pack('>II', len(json.dumps(h)), n) + json.dumps(h).encode()
out = sys.stdout.buffer
out.write(head({'kind': 'ready'})); out.flush()
sys.stdin.buffer.read(300)
out.write(head({'kind': 'error', 'code': 'x', 'message': 'y'})); out.flush()
""",
}


@pytest.mark.parametrize("lie", LIES)
def test_the_words_of_a_hijacked_child_are_checked(lie, samples, monkeypatch):
    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "import json, struct, sys\n" + LIES[lie]]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    monkeypatch.setattr(decoder_module, "_start", start)
    with Decoder() as one:
        assert code_of(samples.jpeg(), one) == "decode_crashed"


def test_threads_may_share_a_decoder(samples, decoder):
    files = [samples.jpeg(64 + 8 * i, 48) for i in range(12)]
    with ThreadPoolExecutor(4) as pool:
        widths = list(pool.map(lambda data: ingest(data, decoder=decoder).pages[0].width, files))
    assert widths == [64 + 8 * i for i in range(12)]


def test_after_a_fork_the_new_process_has_a_child_of_its_own(samples, decoder):
    ingest(samples.jpeg(), decoder=decoder)
    before = decoder.pid
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        width = ingest(samples.jpeg(), decoder=decoder).pages[0].width
        os.write(write_end, f"{width} {decoder.pid != before}".encode())
        decoder.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read_end, 100) == b"64 True"
    os.close(read_end)
    os.close(write_end)
    assert decoder.pid == before and len(ingest(samples.jpeg(), decoder=decoder).pages) == 1


def test_closing_waits_so_that_the_childs_cpu_seconds_are_counted(samples):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with Decoder() as one:
        for _ in range(3):
            ingest(samples.png_of_zeros(4000, 4000), decoder=one)
        pid = one.pid
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime > before + 0.02
    assert one.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_child_inherits_no_secrets_and_may_write_no_file(samples, monkeypatch):
    monkeypatch.setenv("CERTLOOP_STORE_PASSWORD", "secret")
    with Decoder() as one:
        ingest(samples.jpeg(), decoder=one)
        assert b"secret" not in Path(f"/proc/{one.pid}/environ").read_bytes()
        limits = resource.prlimit(one.pid, resource.RLIMIT_FSIZE), resource.prlimit(one.pid, resource.RLIMIT_CORE)
        assert limits == ((0, 0), (0, 0))
        assert resource.prlimit(one.pid, resource.RLIMIT_AS)[0] == IngestLimits().memory_bytes


def test_an_interrupt_in_the_parent_leaves_no_half_answer_behind(samples, decoder, monkeypatch):
    ingest(samples.jpeg(), decoder=decoder)

    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(decoder_module, "_page", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ingest(samples.jpeg(), decoder=decoder)
    assert ingest(samples.jpeg(80, 48), decoder=decoder).pages[0].width == 80


def test_importing_ingest_and_the_child_load_no_heavy_library():
    code = (
        "import sys, certloop.extract.ingest, certloop.extract.ingest.child;"
        "print([m for m in ('numpy', 'cv2', 'onnxruntime', 'torch', 'pypdfium2', 'pi_heif') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_images_can_be_used_as_arrays(samples, decoder):
    image = ingest(samples.jpeg(), decoder=decoder).pages[0].image
    assert np.array_equal(image, image.copy()) and image.flags.writeable


def test_pages_do_not_leak_descriptors_or_threads(samples):
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors(), threading.active_count()
    for _ in range(3):
        ingest(samples.jpeg())
    assert (descriptors(), threading.active_count()) == before
