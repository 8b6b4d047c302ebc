"""``certloop doctor``: is this installation able to read? Each check says what is wrong and what to do."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from certloop import CertloopError, __version__

if TYPE_CHECKING:
    from PIL import Image

MIN_PYTHON = (3, 11)
MIN_FREE_BYTES = 1 << 30
OPENCV_BUILDS = ("opencv-python", "opencv-contrib-python", "opencv-python-headless", "opencv-contrib-python-headless")
PROBE_CODE = "91350100M000100Y43"  # the worked example of GB 32100-2015, not a firm's


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    level: Level
    detail: str


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of lines.")] = False) -> None:
    """Check Python, packages, model files, fonts, document types and memory; read a drawn page. Exits 1 if a check fails."""
    checks = [check for name, examine in CHECKS for check in _guard(name, examine)]
    if as_json:
        rows = [{"name": c.name, "level": c.level.value, "detail": c.detail} for c in checks]
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
    else:
        colors = {Level.OK: typer.colors.GREEN, Level.WARN: typer.colors.YELLOW, Level.FAIL: typer.colors.RED}
        for check in checks:
            typer.echo(f"{typer.style(f'{check.level.value:<5}', fg=colors[check.level])} {check.name:<15} {check.detail}")
    raise typer.Exit(1 if any(c.level is Level.FAIL for c in checks) else 0)


def _guard(name: str, examine: Callable[[], Iterator[Check]]) -> list[Check]:
    """A check that cannot run is itself a finding: whatever it raises is shown, and the next check goes on."""
    found: list[Check] = []
    try:
        found.extend(examine())
    except CertloopError as error:
        found.append(Check(name, Level.FAIL, f"{error.code}: {error.message}"))
    except Exception as error:  # noqa: BLE001 - a broken installation raises anything
        found.append(Check(name, Level.FAIL, f"{type(error).__name__}: {error}"))
    return found


def _python() -> Iterator[Check]:
    level = Level.OK if sys.version_info >= MIN_PYTHON else Level.FAIL
    yield Check(
        "python", level, f"{platform.python_version()} on {platform.system()} {platform.machine()}, certloop {__version__}"
    )


def _packages() -> Iterator[Check]:
    from packaging.requirements import Requirement

    wrong, right = [], []
    for line in metadata.requires("certloop") or []:
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{requirement.name} is missing")
            continue
        if requirement.specifier.contains(version, prereleases=True):
            right.append(f"{requirement.name} {version}")
        else:
            wrong.append(f"{requirement.name} {version} is not {requirement.specifier}")
    if wrong:
        yield Check("packages", Level.FAIL, f"{'; '.join(wrong)}; reinstall: pip install -c requirements.lock certloop")
    else:
        yield Check("packages", Level.OK, ", ".join(right))


def _opencv() -> Iterator[Check]:
    found = [name for name in OPENCV_BUILDS if _installed(name)]
    if len(found) > 1:
        advice = f"pip uninstall -y {' '.join(found)} && pip install opencv-python-headless"
        yield Check("opencv", Level.FAIL, f"{' and '.join(found)} overwrite each other's cv2; run: {advice}")
    elif found != ["opencv-python-headless"]:
        yield Check("opencv", Level.WARN, f"expected opencv-python-headless, found {', '.join(found) or 'none'}")
    else:
        import cv2

        yield Check("opencv", Level.OK, f"one build: opencv-python-headless {cv2.__version__}")


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _models() -> Iterator[Check]:
    """The weights are compared with the hashes that the package's own record holds."""
    from certloop.extract.engine import ocr

    recorded = {file.name: file.hash for file in metadata.files("rapidocr") or []}
    for name in (ocr.DETECTOR, ocr.CLASSIFIER, ocr.RECOGNISER):
        path = ocr.model_path(name)
        digest = hashlib.sha256(path.read_bytes()).digest()
        known = recorded.get(name)
        encoded = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if known is not None and known.value != encoded:
            yield Check("model", Level.FAIL, f"{name} was changed after installation; reinstall rapidocr")
        else:
            yield Check("model", Level.OK, f"{name} {path.stat().st_size / 1e6:.1f} MB sha256 {digest.hex()[:16]}")


def _fonts() -> Iterator[Check]:
    from importlib.resources import files

    from certloop.synth.fields.vocabulary import read_data
    from certloop.synth.render.fonts import default_faces

    names = sorted(f.name for f in files("pylopdf_fonts_zh_cn").iterdir() if f.name.endswith((".otf", ".ttf")))
    yield Check("fonts", Level.OK if names else Level.FAIL, ", ".join(names) or "no Chinese font; reinstall pylopdf-fonts-zh-cn")
    chosen, wanted = default_faces().chosen(), read_data("fonts")
    level = Level.OK if all(chosen[role] == names[0] for role, names in wanted.items()) else Level.WARN
    yield Check("faces", level, ", ".join(f"{role} {face or 'none installed'}" for role, face in chosen.items()))


def _types() -> Iterator[Check]:
    from certloop.settings import Settings
    from certloop.templates import load_types

    settings = Settings.load()
    registry = load_types(settings.template_path)
    extra = [t.id for t in registry if t.source != "builtin"]
    yield Check("document types", Level.OK, f"{len(registry)} types{', of yours: ' + ', '.join(extra) if extra else ''}")
    changed = {name: value for name, value in settings.model_dump(mode="json").items() if name in settings.model_fields_set}
    yield Check(
        "settings", Level.OK, ", ".join(f"CERTLOOP_{k.upper()}={v}" for k, v in changed.items()) or "all at their defaults"
    )


def _memory() -> Iterator[Check]:
    free = _available_bytes()
    level = Level.OK if free >= MIN_FREE_BYTES else Level.WARN
    advice = "" if level is Level.OK else "; a worker needs up to 1 GB: use fewer workers"
    yield Check("memory", level, f"{free / 1e9:.1f} GB free, {os.cpu_count()} cores{advice}")


def _available_bytes() -> int:
    """What Linux says can be used without swapping; elsewhere the pages that are free."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def _reading() -> Iterator[Check]:
    """A real read, from bytes to a checked field."""
    import io
    import time

    from certloop.extract import Extractor
    from certloop.settings import Settings

    buffer = io.BytesIO()
    draw_probe().save(buffer, "PNG")
    start = time.perf_counter()
    with Extractor(Settings.load().extract_config()) as extractor:
        result = extractor.read(buffer.getvalue(), name="<probe>")
    seconds = time.perf_counter() - start
    values = {f.value for d in result.documents for f in d.fields.values()}
    if result.error is not None:
        yield Check("reading", Level.FAIL, f"{result.error['code']}: {result.error['message']}")
    elif PROBE_CODE not in values:
        yield Check(
            "reading", Level.FAIL, "a drawn page was read without finding its credit code; reinstall certloop and its packages"
        )
    else:
        yield Check("reading", Level.OK, f"a drawn page was read in {seconds:.1f} s, start of the engine included")


def draw_probe() -> Image.Image:
    """A small fictional licence, drawn with the font that comes with the product."""
    from importlib.resources import as_file, files

    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (900, 640), "white")
    draw = ImageDraw.Draw(picture)
    with as_file(files("pylopdf_fonts_zh_cn") / "NotoSansSC-Regular.otf") as path:
        title, body = ImageFont.truetype(str(path), 56), ImageFont.truetype(str(path), 28)
    draw.text((450, 80), "营业执照", font=title, fill="black", anchor="mm")
    lines = (
        ("统一社会信用代码", PROBE_CODE),
        ("名称", "示例市样本贸易有限公司"),
        ("类型", "有限责任公司"),
        ("法定代表人", "张样本"),
        ("住所", "示例市样本区样本路1号"),
    )
    for row, (label, value) in enumerate(lines):
        draw.text((80, 180 + 80 * row), label, font=body, fill="black")
        draw.text((360, 180 + 80 * row), value, font=body, fill="black")
    return picture


CHECKS: tuple[tuple[str, Callable[[], Iterator[Check]]], ...] = (
    ("python", _python),
    ("packages", _packages),
    ("opencv", _opencv),
    ("model", _models),
    ("fonts", _fonts),
    ("document types", _types),
    ("memory", _memory),
    ("reading", _reading),
)
