"""Edit distances of many pairs of texts at once, exactly: the table of all pairs side by side, one anti-diagonal after another.

The cells of an anti-diagonal do not depend on each other, so each is one numpy operation over all pairs. Only a band around the
main diagonal is filled: a path that leaves it by more than half of a distance already known to be possible cannot be the
shortest (Ukkonen, "Algorithms for approximate string matching", 1985).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from certloop.agentrl.rewards.text import folded_similarity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Codes = NDArray[np.unsignedinteger[Any]]

FEW = 24
"""So few pairs of a size are compared one by one: numpy's calls cost more than they save."""
LONGEST = 1024
"""Longer texts are compared one by one: their table is better held in one big integer."""
NARROW = (10, 28)
"""Half widths of the bands that are tried first: most misreadings stay near the diagonal."""
UNLIKE = 0.85
"""Where so large a share of a text may have to be written anew, no narrow band is tried."""
CELLS = 1 << 17
"""Most cells of one anti-diagonal over all pairs of a chunk: what stays in the cache."""
CHARS = 1 << 22
"""Most characters a side that are laid out at once."""

Text = tuple[str, str]


def folded_similarities(pairs: Collection[Text]) -> dict[Text, float]:
    """Return ``folded_similarity`` of every pair of folded texts, the very same numbers, only faster."""
    import numpy as np

    unique = list(dict.fromkeys(pairs))
    if len(unique) < FEW:
        return {pair: folded_similarity(*pair) for pair in unique}
    first, second = _lengths([a for a, _ in unique]), _lengths([b for _, b in unique])
    longest = np.maximum(first, second)
    out = np.empty(len(unique), np.float64)
    for some in _pieces(longest):
        part = [unique[i] for i in some]
        if len(part) < FEW or longest[some[-1]] > LONGEST or not np.minimum(first[some], second[some]).all():
            out[some] = [folded_similarity(*pair) for pair in part]
        else:
            out[some] = 1.0 - distances(part) / longest[some]
    return dict(zip(unique, out.tolist(), strict=True))


def distances(pairs: Sequence[Text]) -> NDArray[Any]:
    """Return the (n,) edit distances of pairs of texts none of which is empty, as :func:`levenshtein` does one by one."""
    import numpy as np

    ordered = [(a, b) if len(a) <= len(b) else (b, a) for a, b in pairs]
    short, long = _lengths([a for a, _ in ordered]), _lengths([b for _, b in ordered])
    a_LN, b_LN = _codes([a for a, _ in ordered], int(short.max())), _codes([b for _, b in ordered], int(long.max()))
    more = long - short
    possible = _possible(a_LN, b_LN, short, long)
    slack, alike = (possible - more) // 2, possible < UNLIKE * long
    out = np.zeros(len(pairs), np.int64)
    open_ = np.arange(len(pairs))
    for width in (*NARROW, len(a_LN) + len(b_LN)):
        sure = np.where(alike, np.minimum(slack, width), slack)
        open_ = open_[np.argsort(sure[open_], kind="stable")]
        start, left = 0, []
        while start < len(open_):
            some = open_[start : start + max(1, CELLS // len(a_LN))]
            some = some[sure[some] <= int(sure[some[0]]) * 3 // 2 + 2]  # bands of about one width go together
            band = int(sure[some[-1]])
            out[some] = _table(a_LN[:, some], b_LN[:, some], short[some], long[some], band)
            # A path that leaves the band pays for the way out and back: it cannot be shorter than that.
            left.append(some[(slack[some] > band) & (out[some] > more[some] + 2 * band + 1)])
            start += len(some)
        open_ = np.concatenate(left) if left else open_[:0]
    return out


def _lengths(texts: Sequence[str]) -> NDArray[np.int64]:
    import numpy as np

    return np.fromiter(map(len, texts), np.int64, len(texts))


def _alike(longest: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Indices in groups of about one length, shortest first."""
    import numpy as np

    order = np.argsort(longest, kind="stable")
    sizes = np.floor(np.log2(np.maximum(longest[order], 4)) * 2)  # a length and 1.4 times of it are about the same
    yield from np.split(order, np.flatnonzero(np.diff(sizes)) + 1)


def _pieces(longest: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The same, no group holding more than ``CHARS`` characters a side: an answer may claim thousands of values."""
    import numpy as np

    for some in _alike(longest):
        if len(some):
            yield from np.array_split(some, -(-len(some) * int(longest[some[-1]]) // CHARS) or 1)


def _codes(texts: Sequence[str], width: int) -> Codes:
    """(width, n) code points, 0 behind a text's end."""
    import numpy as np

    joined = "".join(map(str.ljust, texts, repeat(width), repeat("\0")))
    table = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32).reshape(len(texts), width).T
    return np.ascontiguousarray(table, np.uint16 if table.max(initial=0) < 1 << 16 else np.uint32)


def _possible(a_LN: Codes, b_LN: Codes, short: NDArray[np.int64], long: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) distances that are surely reached: characters one to one up to the best place, where all that is more is put in."""
    import numpy as np

    inside_LN = np.arange(len(a_LN))[:, None] < short
    fronts_LN = (a_LN != b_LN[: len(a_LN)]) & inside_LN
    more = long - short
    possible: NDArray[np.int64] = fronts_LN.sum(axis=0)
    if len(uneven := np.flatnonzero(more)):
        rows = np.minimum(np.arange(len(a_LN))[:, None] + more[uneven], len(b_LN) - 1)
        backs_LN = (a_LN[:, uneven] != b_LN[rows, uneven]) & inside_LN[:, uneven]
        gained_LN = np.cumsum(fronts_LN[:, uneven].astype(np.int16) - backs_LN, axis=0, dtype=np.int16)
        possible[uneven] = more[uneven] + backs_LN.sum(axis=0) + np.minimum(gained_LN.min(axis=0), 0)
    return possible


def _table(a_LN: Codes, b_LN: Codes, short: NDArray[np.int64], long: NDArray[np.int64], slack: int) -> NDArray[np.int64]:
    """(n,) distances; cell (i, j) compares the first i characters of the shorter text with the first j of the longer one.

    ``three`` holds three anti-diagonals i + j = s, cell i in row i + 1; row 0 and all that lies outside of the band is ``far``.
    """
    import numpy as np

    rows, columns = int(short.max()), int(long.max())
    number, far = (np.uint8, 253) if columns < 250 else (np.uint16, 60_000)
    a_LN, b_LN = np.ascontiguousarray(a_LN[:rows]), np.ascontiguousarray(b_LN[:columns][::-1])
    below, above = slack, int((long - short).max()) + slack  # j - i stays between -below and above
    three = np.full((3, rows + 2, len(short)), far, number)
    three[0, 1] = 0
    out = np.zeros(len(short), np.int64)
    ends = short + long
    for s in range(1, rows + columns + 1):
        now, before, last = three[s % 3], three[(s - 1) % 3], three[(s - 2) % 3]
        low, high = max(0, s - columns, (s - above + 1) // 2), min(rows, s, (s + below) // 2)
        now[low] = far  # what stood here three diagonals ago is outside of the band by now
        inside = slice(low + 1, high + 2)
        np.minimum(before[low : high + 1], before[inside], out=now[inside])
        now[inside] += 1
        first, final = max(low, 1), min(high, s - 1)  # where both i and j are at least 1
        if first <= final:
            differ = a_LN[first - 1 : final] != b_LN[columns - s + first : columns - s + final + 1]
            here = now[first + 1 : final + 2]
            np.minimum(here, last[first : final + 1] + differ, out=here)
        if len(done := np.flatnonzero(ends == s)):
            out[done] = now[short[done] + 1, done]
    return out
