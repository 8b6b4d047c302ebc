"""A face for characters that a machine's own fonts may lack: 〇 and those outside GB 2312, which names of people do have.

The face is Noto Sans SC of the package that the data engine draws with; a browser asks for it only when it meets such a character
and none of its own fonts has it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

FAMILY = "Certloop Rare"
_MORE = ("U+3007", "U+3400-4DBF", "U+20000-323AF")
_FIRST, _LAST = 0x4E00, 0x9FFF
"""The main block of Chinese characters; GB 2312 has a third of it, and every font has those."""


def face() -> Path:
    """The font's file."""
    import pylopdf_fonts_zh_cn

    return Path(pylopdf_fonts_zh_cn.__file__).parent / "NotoSansSC-Regular.otf"


@cache
def rule() -> str:
    """The @font-face rule; it must stand in the page itself, because those inside a shadow root are not heard."""
    return (
        f'@font-face {{ font-family: "{FAMILY}"; src: url("/desk/font/rare.otf") format("opentype"); font-display: swap; '
        f"unicode-range: {', '.join([*_MORE, *_rare()])}; }}"
    )


def _rare() -> list[str]:
    runs: list[list[int]] = []
    for code in range(_FIRST, _LAST + 1):
        try:
            chr(code).encode("gb2312")
        except UnicodeEncodeError:
            if runs and runs[-1][1] == code - 1:
                runs[-1][1] = code
            else:
                runs.append([code, code])
    return [f"U+{first:X}-{last:X}" if first != last else f"U+{first:X}" for first, last in runs]
