"""Runs code that a model wrote, in a process that can only compute. Started by ``sandbox.py`` as a script, never imported.

Reads one JSON request from standard input, writes one JSON line a call to standard output. Before foreign code runs, limits are
set and a seccomp filter refuses every system call that could open a file, reach the network, start or signal a process: only
memory, time, and writing to open descriptors are left. Modules are loaded beforehand: nothing can be imported afterwards.
"""

import bisect
import collections
import copy
import ctypes
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import heapq
import itertools
import json
import math
import operator
import os
import platform
import random
import re
import resource
import statistics
import string
import struct
import sys
import typing
from typing import Any

PRELOADED = (
    bisect, collections, copy, dataclasses, datetime, decimal, enum, fractions, functools, heapq, itertools, math, operator,
    random, re, statistics, string, typing,
)  # fmt: skip
UNAVAILABLE = 70
READY = b"ready\n"

# Architecture constants of <linux/audit.h> and system call numbers of read, write, mmap, mprotect, munmap, brk, rt_sigaction,
# rt_sigprocmask, rt_sigreturn, mremap, madvise, futex, clock_gettime, clock_nanosleep, getrandom, exit, exit_group, gettid,
# sched_yield, close, lseek, fstat.
ALLOWED = {
    "x86_64": (0xC000003E, (0, 1, 9, 10, 11, 12, 13, 14, 15, 25, 28, 202, 228, 230, 318, 60, 231, 186, 24, 3, 8, 5)),
    "aarch64": (
        0xC00000B7,
        (63, 64, 222, 226, 215, 214, 134, 135, 139, 216, 233, 98, 113, 115, 278, 93, 94, 178, 124, 57, 62, 80),
    ),
}
EPERM = 1


def lock(limits: dict[str, int]) -> None:
    """Set limits and the system call filter; exit with UNAVAILABLE where there is none."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (limits["memory_bytes"],) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (limits["cpu_s"], limits["cpu_s"] + 1))
    known = ALLOWED.get(platform.machine())
    if sys.platform != "linux" or known is None or not _filter(*known):
        os._exit(UNAVAILABLE)


def _filter(architecture: int, calls: tuple[int, ...]) -> bool:
    load, equal, give = 0x20, 0x15, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
    allow, kill, refuse = 0x7FFF0000, 0x80000000, 0x00050000 | EPERM
    program = [(load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, kill), (load, 0, 0, 0)]
    for call in calls:
        program += [(equal, 0, 1, call), (give, 0, 0, allow)]
    program.append((give, 0, 0, refuse))
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code)
    filter_program = ctypes.create_string_buffer(struct.pack("HL", len(program), ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, mode_filter = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(set_seccomp, mode_filter, filter_program, 0, 0) == 0)


def main() -> None:
    request = json.load(sys.stdin)
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(3, out)
    os.closerange(out + 1, 1024)
    write, dumps, leave = os.write, json.dumps, os._exit  # kept from before foreign code can replace them
    lock(request["limits"])
    write(out, READY)
    namespace: dict[str, Any] = {"__name__": "solution"}
    failure: str | None = None
    try:
        exec(  # noqa: S102 - this process exists for it
            compile(request["code"], "solution", "exec"), namespace
        )
        function = namespace[request["function"]]
    except BaseException as error:  # noqa: BLE001 - foreign code may raise anything, SystemExit too
        failure = type(error).__name__
    for arguments in request["arguments"]:
        try:
            line = {"error": failure} if failure else {"value": function(*arguments)}
            text = dumps(line, allow_nan=False)
        except BaseException as error:  # noqa: BLE001 - as above
            text = dumps({"error": type(error).__name__})
        data = text.encode() + b"\n"
        while data:
            data = data[write(out, data) :]
    leave(0)


if __name__ == "__main__":
    main()
