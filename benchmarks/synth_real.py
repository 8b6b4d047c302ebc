"""Is synthetic like real? The embedded reader's strict score and its kinds of errors on a pack of your own labelled images, and
on fresh synthetic pages of the same types, side by side.

    python benchmarks/synth_real.py [PACK] [--count N] [--seed N] [--sheets DIR] [--json FILE]

PACK is a folder with labels.jsonl (default: CERTLOOP_DEVPACK). Synthetic pages follow the pack: the same share of each type, and
only the fields that the pack labels for a type are scored, because a pack rarely transcribes everything. ``scan`` and ``photo``
stand beside the whole pack, ``photo`` also beside the images whose trap is phone_photo, ``hard`` beside the pack's hardest
quarter of files. The interval is a bootstrap over files. With ``--sheets`` one contact sheet a profile shows real images at the
left and synthetic ones at the right: look at them, and keep them to yourself, they hold real documents.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")

from certloop.extract import evaluation
from certloop.extract.batch import read_many
from certloop.extract.config import ExtractConfig
from certloop.synth.label import make_sample
from certloop.synth.perturb import load_profile
from certloop.synth.sample import Recipe
from certloop.synth.seeds import stream_seed
from certloop.templates import load_types

if TYPE_CHECKING:
    from certloop.extract.evaluation import LabelRow

MAX_GAP, WIDTHS_PX, HARDEST_SHARE = 0.05, (1100, 1400), 0.25
SHOWN = {"scan": ("scan", "grayscale_scan", "photocopy"), "photo": ("phone_photo",), "hard": ("low_res",)}


@dataclass(frozen=True, slots=True)
class Score:
    """``strict`` with its 95 % ``interval`` over files; ``causes`` of what is not right, most frequent first."""

    name: str
    files: int
    fields: int
    strict: float
    interval: tuple[float, float]
    causes: tuple[tuple[str, int], ...]
    invented: int

    @property
    def ranking(self) -> tuple[str, ...]:
        """Causes that make at least a twentieth of the errors, most frequent first."""
        total = sum(n for _, n in self.causes)
        return tuple(name for name, n in self.causes if n * 20 >= total)


@dataclass(frozen=True, slots=True)
class FileScore:
    right: int
    asked: int
    causes: tuple[str, ...]
    invented: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=Path, nargs="?", default=os.environ.get("CERTLOOP_DEVPACK"), metavar="PACK")
    parser.add_argument("--count", type=int, default=76, help="synthetic images a profile")
    parser.add_argument("--seed", type=int, default=1, help="choose one that nobody tuned with")
    parser.add_argument("--profile", action="append", metavar="P", help="default: scan, photo, hard")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--sheets", type=Path, metavar="DIR", help="write contact sheets here")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    if not args.pack or not (Path(args.pack) / "labels.jsonl").is_file():
        parser.error("a pack is a folder with labels.jsonl; name one or set CERTLOOP_DEVPACK")
    pack = Path(args.pack)
    truth = evaluation.read_labels(pack / "labels.jsonl")
    by_file = score_files(pack, truth, args.workers)
    traps = read_traps(pack)
    photos = [f for f in by_file if "phone_photo" in traps.get(f, ())]
    real = {"pack": total("real, whole pack", by_file), "hardest": total("real, hardest quarter", hardest(by_file))}
    if photos:
        real["photos"] = total("real, phone photographs", {f: by_file[f] for f in photos})
    for score in real.values():
        show(score)
    scores = list(real.values())
    for profile in args.profile or ("scan", "photo", "hard"):
        with tempfile.TemporaryDirectory() as folder:
            files = write_like(Path(folder), truth, profile, args.count, args.seed)
            synthetic = evaluation.read_labels(Path(folder) / "labels.jsonl")
            score = total(f"synthetic {profile}", score_files(Path(folder), synthetic, args.workers))
            if args.sheets:
                sheet(args.sheets / f"{profile}.jpg", chosen(pack, traps, profile, by_file), files)
        scores.append(score)
        show(score)
        compare(score, real["hardest"] if profile == "hard" else real["pack"], with_target=profile in ("photo", "hard"))
        if profile == "photo" and photos:
            compare(score, real["photos"], with_target=True)
    if args.json:
        args.json.write_text(json.dumps([asdict(s) for s in scores], ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def show(score: Score) -> None:
    low, high = score.interval
    causes = ", ".join(f"{name} {n}" for name, n in score.causes) or "none"
    print(
        f"{score.name:<26} strict {score.strict:.3f} [{low:.3f}, {high:.3f}] of {score.fields} fields in {score.files} files, "
        f"invented {score.invented}; wrong ones: {causes}",
        flush=True,
    )


def compare(score: Score, real: Score, *, with_target: bool) -> None:
    gap = score.strict - real.strict
    shared = [c for c in real.ranking if c in score.ranking]
    same = [c for c in score.ranking if c in shared] == shared and score.ranking[:1] == real.ranking[:1]
    mark = ("ok  " if abs(gap) <= MAX_GAP else "MISS") if with_target else "    "
    print(f"  {mark} against {real.name}: {gap:+.3f}; ranking of causes {'the same' if same else 'differs'}: ", end="")
    print(f"{' > '.join(score.ranking)} | real {' > '.join(real.ranking)}", flush=True)


def score_files(folder: Path, truth: Sequence[LabelRow], workers: int) -> dict[str, FileScore]:
    """Read and score every labelled file on its own."""
    rows = [row for row in truth if (folder / row.file).is_file()]
    schema = evaluation.schema_from_registry(load_types())
    answers = list(read_many([folder / row.file for row in rows], ExtractConfig(), workers=workers))
    out = {}
    for row, answer in zip(rows, answers, strict=True):
        report = evaluation.evaluate([answer], [row], schema).to_json()
        strict = report["overall"]["strict"]
        causes = tuple(e["cause"] for e in report["errors"] if e["cause"] != "invented")
        out[row.file] = FileScore(strict["ok"], strict["n"], causes, report["overall"]["invented"]["ok"])
    return out


def total(name: str, by_file: Mapping[str, FileScore]) -> Score:
    scores = [s for s in by_file.values() if s.asked]
    asked = sum(s.asked for s in scores)
    rng, draws = random.Random(7), []
    for _ in range(2000):
        sample = rng.choices(scores, k=len(scores))
        draws.append(sum(s.right for s in sample) / sum(s.asked for s in sample))
    draws.sort()
    return Score(
        name,
        len(by_file),
        asked,
        sum(s.right for s in scores) / asked,
        (draws[50], draws[1949]),
        tuple(Counter(c for s in by_file.values() for c in s.causes).most_common()),
        sum(s.invented for s in by_file.values()),
    )


def hardest(by_file: Mapping[str, FileScore]) -> dict[str, FileScore]:
    asked = {f: s for f, s in by_file.items() if s.asked}
    order = sorted(asked, key=lambda f: asked[f].right / asked[f].asked)
    return {f: asked[f] for f in order[: max(1, round(len(order) * HARDEST_SHARE))]}


def write_like(folder: Path, truth: Sequence[LabelRow], profile: str, count: int, seed: int) -> list[Path]:
    """Synthetic images in the pack's mix of types, labelled with the fields that the pack labels."""
    schema, loaded = evaluation.schema_from_registry(load_types()), load_profile(profile)
    documents = [
        (kind, d) for row in truth for d in row.documents if (kind := schema.find(d.doc_type)) and any(d.fields.values())
    ]
    labelled: dict[str, set[str]] = {}
    for kind, document in documents:
        labelled.setdefault(kind.id, set()).update(kind.canonical(name) for name in document.fields)
    types = [kind.id for kind, _ in documents]
    random.Random(seed).shuffle(types)
    rows, files = [], []
    for i in range(count):
        recipe = Recipe(types[i % len(types)], stream_seed(seed, "synth_real", profile, i), WIDTHS_PX[i % len(WIDTHS_PX)])
        sample = make_sample(replace(recipe, misprint_rate=0.0), loaded)
        kind = schema.types[recipe.type_id]
        path = folder / f"{i:03d}.{sample.suffix}"
        path.write_bytes(sample.encoded())
        keep = {k: v for k, v in sample.label["fields"].items() if kind.canonical(k) in labelled[recipe.type_id]}
        rows.append(json.dumps(sample.label | {"file": path.name, "fields": keep}, ensure_ascii=False) + "\n")
        files.append(path)
    (folder / "labels.jsonl").write_text("".join(rows), encoding="utf-8")
    return files


def read_traps(pack: Path) -> dict[str, tuple[str, ...]]:
    rows = [json.loads(line) for line in (pack / "labels.jsonl").read_text(encoding="utf-8").splitlines() if line.strip()]
    return {row["file"]: tuple(row.get("traps", ())) for row in rows}


def chosen(pack: Path, traps: Mapping[str, tuple[str, ...]], profile: str, by_file: Mapping[str, FileScore]) -> list[Path]:
    wanted = set(SHOWN.get(profile, ()))
    fitting = [f for f in by_file if wanted & set(traps.get(f, ()))] or list(by_file)
    return [pack / f for f in fitting[:6]]


def sheet(path: Path, real: Sequence[Path], synthetic: Sequence[Path], tile_px: int = 620) -> None:
    from PIL import Image, ImageOps

    rows = max(len(real), 4)
    canvas = Image.new("RGB", (3 * tile_px, rows * tile_px), (70, 70, 74))
    columns = [list(real), list(synthetic[:rows]), list(synthetic[rows : 2 * rows])]
    for column, files in enumerate(columns):
        for row, file in enumerate(files):
            with Image.open(file) as picture:
                tile = ImageOps.exif_transpose(picture).convert("RGB")
            tile.thumbnail((tile_px - 8, tile_px - 8))
            canvas.paste(tile, (column * tile_px + 4, row * tile_px + 4))
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.save(path, quality=85)


if __name__ == "__main__":
    main()
