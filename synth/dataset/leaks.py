"""Refuses a dataset that holds an image twice or a value in two splits, in a few bytes a row: 100,000 rows need about 6 MB."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from certloop.synth.errors import DatasetError

IDENTIFYING = {
    "统一社会信用代码",
    "社会信用代码",
    "注册号",
    "名称",
    "经营者名称",
    "生产者名称",
    "企业名称",
    "公司名称",
    "业户名称",
    "住所",
    "经营场所",
    "生产地址",
    "注册地址",
    "地址",
    "住址",
    "公民身份号码",
    "委托人",
    "受托人身份证号",
    "账号",
}
_SHORTEST = 6
Row = dict[str, Any]


class Leaks:
    """Remembers 64 bits of each image and of each identifying value; two that agree by chance are told apart by reading again."""

    def __init__(self) -> None:
        self._images = array("Q")
        self._values = array("Q")
        self._splits = array("H")
        self._names: list[str] = []

    def note(self, row: Row) -> None:
        self._images.append(int(row["sha256"][:16], 16))
        if row["split"] not in self._names:
            self._names.append(row["split"])
        number = self._names.index(row["split"])
        for _, value in _values(row):
            self._values.append(_hash(value))
            self._splits.append(number)

    def refuse(self, rows: Callable[[], Iterable[Row]]) -> None:
        """Raise DatasetError naming the image or field when something stands twice. ``rows`` reads the rows once more."""
        images = np.sort(np.frombuffer(self._images, np.uint64))
        twice = set(images[1:][images[1:] == images[:-1]].tolist())
        values, splits = np.frombuffer(self._values, np.uint64), np.frombuffer(self._splits, np.uint16)
        order = np.lexsort((splits, values))
        values, splits = values[order], splits[order]
        shared = set(values[1:][(values[1:] == values[:-1]) & (splits[1:] != splits[:-1])].tolist())
        if twice or shared:
            _refuse(rows(), twice, shared)


def _refuse(rows: Iterable[Row], twice: set[int], shared: set[int]) -> None:
    seen: dict[str, str] = {}
    owners: dict[str, str] = {}
    for row in rows:
        if int(row["sha256"][:16], 16) in twice and seen.setdefault(row["sha256"], row["file"]) != row["file"]:
            raise DatasetError(f"image {row['file']} stands twice in the dataset; use another seed")
        for name, value in _values(row):
            if _hash(value) in shared and owners.setdefault(value, row["split"]) != row["split"]:
                raise DatasetError(
                    f"a value of field {name} of {row['file']} stands in splits {owners[value]} and {row['split']}"
                )


def _values(row: Row) -> Iterator[tuple[str, str]]:
    return ((n, v) for n, v in row["fields"].items() if n in IDENTIFYING and v and len(v) >= _SHORTEST)


def _hash(value: str) -> int:
    return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8).digest(), "big")
