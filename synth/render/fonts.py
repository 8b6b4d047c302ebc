"""Faces by role, with a fallback per character: what no face can draw is an error, never an empty box."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import lru_cache
from pathlib import Path

from PIL import ImageFont

from certloop.synth.errors import FontMissingError, GlyphMissingError
from certloop.synth.fields.vocabulary import DATA, read_data

_SYSTEM = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), Path("~/.local/share/fonts").expanduser())
_BLANK = frozenset(" \u3000\u00a0\n")


class Faces:
    """The installed faces of every role of ``fonts.toml``; ``folders`` are searched before the system's."""

    def __init__(self, folders: tuple[Path, ...] = ()) -> None:
        self._folders = (*folders, DATA / "fonts", *_package_folder(), *_SYSTEM)
        self._roles: dict[str, tuple[Path, ...]] = {}
        self._drawn: dict[tuple[Path, str], bool] = {}

    def role(self, role: str) -> tuple[Path, ...]:
        """Installed faces of ``role``, best first. Raises FontMissingError (code font_missing)."""
        if role not in self._roles:
            names = read_data("fonts").get(role)
            if names is None:
                raise FontMissingError(f"no font role {role!r}; known: {', '.join(read_data('fonts'))}")
            found = tuple(path for name in names if (path := self._find(name)))
            if not found:
                raise FontMissingError(f"no face of role {role!r} is installed; install one of {', '.join(names)}")
            self._roles[role] = found
        return self._roles[role]

    def face_for(self, role: str, char: str) -> Path:
        """The first face of ``role`` that can draw ``char``. Raises GlyphMissingError (code glyph_missing)."""
        faces = self.role(role)
        if char in _BLANK:
            return faces[0]
        for path in faces:
            known = self._drawn.get((path, char))
            if known is None:
                known = self._drawn[path, char] = _has_glyph(path, char)
            if known:
                return path
        raise GlyphMissingError(
            f"no face of role {role!r} has the character {char!r} (U+{ord(char):04X}); add a face to fonts.toml"
        )

    def runs(self, role: str, text: str) -> list[tuple[Path, str]]:
        """``text`` split into stretches that one face draws."""
        out: list[tuple[Path, str]] = []
        for char in text:
            path = self.face_for(role, char)
            if out and out[-1][0] == path:
                out[-1] = (path, out[-1][1] + char)
            else:
                out.append((path, char))
        return out

    def chosen(self) -> dict[str, str]:
        """The face that each role draws with on this machine, by file name ("" when none is installed)."""
        return {role: next((name for name in names if self._find(name)), "") for role, names in read_data("fonts").items()}

    def digest(self) -> dict[str, str]:
        """Name and SHA-256 of every face in use: the same digests give the same pixels."""
        used = sorted({path for paths in self._roles.values() for path in paths})
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in used}

    def _find(self, name: str) -> Path | None:
        for folder in self._folders:
            if (folder / name).is_file():
                return folder / name
            if folder in _SYSTEM and folder.is_dir() and (hit := next(iter(sorted(folder.rglob(name))), None)):
                return hit
        return None


@lru_cache(maxsize=64)
def open_font(path: Path, size_px: float) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(path), size_px, layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=60_000)
def advance(path: Path, size_px: float, char: str) -> float:
    """Width of one character in pixels."""
    return float(open_font(path, size_px).getlength(char))


@lru_cache(maxsize=1)
def default_faces() -> Faces:
    return Faces()


def _package_folder() -> tuple[Path, ...]:
    spec = importlib.util.find_spec("pylopdf_fonts_zh_cn")
    return (Path(spec.origin).parent,) if spec and spec.origin else ()


def _has_glyph(path: Path, char: str) -> bool:
    font = open_font(path, 24)
    mask = font.getmask(char)
    if mask.getbbox() is None:
        return False
    return bytes(mask) != _notdef(path) or mask.size != font.getmask("\uffff").size


@lru_cache(maxsize=64)
def _notdef(path: Path) -> bytes:
    return bytes(open_font(path, 24).getmask("\uffff"))
