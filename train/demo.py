"""The whole pipeline on a CPU, with nano: pages, a scripted teacher's annotation, packing, SFT, distillation, GSPO, evaluation.

It begins with the committed early student, so that it takes minutes. The scripted teacher is fixed sentences over the labels'
boxes, not a model: it shows the plumbing, not a teacher's quality. Its reasoning is packed and checked like a real teacher's; the
models are trained on the answers alone, because nano's teacher writes nothing else and could not score a thought.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certloop.train.config import RunConfig, load_config
from certloop.train.errors import TrainError
from certloop.train.evaluate import evaluate
from certloop.train.nano_data import nano_rows
from certloop.train.report import Reached, stage_table, write_report
from certloop.train.rows import Row

if TYPE_CHECKING:
    from certloop.train.teach.pages import LabelledPage

TRAIN_SEED, HELD_OUT_SEED = 41, 771_001
QUICK_STEPS = {"sft": 2, "distill": 2, "gspo": 4}
Say = Callable[[str], None]


def demo(
    out: Path,
    *,
    quick: bool = False,
    seed: int = 0,
    student: str = "nano:early",
    teacher: str = "nano:teacher",
    say: Say = lambda line: None,
) -> str:
    """Run everything into ``out`` and return the table of what each stage brought. The same call again resumes."""
    from certloop.train.models import load_base, load_processor, load_student
    from certloop.train.run import run, stage_folder

    config = demo_config(out, quick=quick, seed=seed, student=student, teacher=teacher)
    processor = load_processor(config.student)
    make_rows(out, processor, 24 if quick else 600, seed, say)
    seen = nano_rows(out / "held-out", HELD_OUT_SEED, 8 if quick else 200)
    unseen = nano_rows(out / "unseen", HELD_OUT_SEED, 4 if quick else 100, layouts="unseen")
    run(config, out / "run", say)
    folders = [stage_folder(out / "run", n, stage) for n, stage in enumerate(config.stages, 1)]
    reached = [_reached("early student", load_base(config.student), processor, seen, unseen)]
    for stage, folder in zip(config.stages, folders, strict=True):
        say(f"reading held-out pages after {stage.label}")
        model = load_student(config.student, folder / "model")
        reached.append(_reached(f"+ {stage.label}", model, processor, seen, unseen, _seconds(folder)))
    assert config.teacher is not None
    reached.append(_reached("teacher", load_base(config.teacher), processor, seen, unseen))
    metrics = {stage.label: folder / "metrics.jsonl" for stage, folder in zip(config.stages, folders, strict=True)}
    write_report(reached, metrics, out / "report")
    return f"{stage_table(reached)}\n\nreport, numbers and plots: {out / 'report'}"


def demo_config(out: Path, *, quick: bool, seed: int, student: str, teacher: str) -> RunConfig:
    """The built-in run ``nano`` on the rows that the demonstration packs."""
    config = load_config("nano")
    stages = [stage.model_dump(exclude_none=True) for stage in config.stages]
    if quick:
        for stage in stages:
            stage |= {"steps": QUICK_STEPS[stage["kind"]], "batch_size": 4 if stage["kind"] != "gspo" else 8}
            if stage["kind"] != "sft":
                stage["max_completion_length"] = 24 if stage["kind"] == "distill" else 120  # a cut answer earns nothing
    return config.with_(
        seed=seed,
        stages=stages,
        student=config.student.model_dump(exclude_none=True) | {"path": student},
        teacher=(config.teacher or config.student).model_dump(exclude_none=True) | {"path": teacher},
        data=config.data.model_dump() | {"train": str(out / "packed" / "train")},
    )


def make_rows(out: Path, processor: Any, n: int, seed: int, say: Say) -> None:
    """Pages, annotation, packing: ``out/packed/train`` (answers alone), ``out/reasoned/train`` (reasoning, then the answer)."""
    if (out / "packed" / "train" / "manifest.json").exists():
        return
    from certloop.extract.engine.inputs import view_of
    from certloop.train.pack.pack import PackConfig, pack
    from certloop.train.teach.annotate import JOURNAL, ScriptedTeacher, TeachConfig, annotate
    from certloop.train.teach.journal import read_annotations
    from certloop.train.teach.scripted import NAME

    pages = labelled_pages(out / "pages", n, TRAIN_SEED + seed)
    say(f"{n} pages drawn")
    view = view_of(processor)
    tally = annotate(TeachConfig(model=NAME, view=view), pages, out / "annotations", teacher=ScriptedTeacher("full"))
    counts = f"{tally.kept} kept, {tally.dropped} dropped, {tally.failed} failed"
    say(f"annotated by {NAME}: {counts}; modes {dict(sorted(tally.modes.items()))}")
    notes = read_annotations(out / "annotations" / JOURNAL)
    reasoned = pack(PackConfig(view=view), pages, notes, out / "reasoned")
    kept = [page for page in pages if page.id in notes and notes[page.id].status == "kept"]
    if not kept:
        raise TrainError("no annotation was kept, so there is nothing to train on")
    packed = pack(PackConfig(view=view, reasoning=False), kept, notes, out / "packed")
    say(f"packed: {reasoned.rows} rows with reasoning, {packed.rows} rows of answers alone")


def labelled_pages(folder: Path, n: int, seed: int) -> list[LabelledPage]:
    """Nano's pages as annotation takes them: pictures, labels, boxes in [0, 1]."""
    from certloop.train.nano import nano_pages
    from certloop.train.nano.vocabulary import nano_type
    from certloop.train.teach.pages import LabelledPage

    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for page in nano_pages(seed, n):
        path = folder / f"{page.seed}-{page.index}.png"
        page.image.save(path)
        height, width = page.pixels.shape[:2]
        boxes = {k: (b[0] / width, b[1] / height, b[2] / width, b[3] / height) for k, b in page.boxes.items()}
        made.append(
            LabelledPage(
                f"{page.seed}-{page.index}", path, nano_type(), dict(page.fields), page.layout, "train", boxes, dict(page.printed)
            )
        )
    return made


def _reached(name: str, model: Any, processor: Any, seen: list[Row], unseen: list[Row], seconds: float = 0.0) -> Reached:
    return Reached(name, evaluate(model, processor, seen), evaluate(model, processor, unseen), seconds)


def _seconds(folder: Path) -> float:
    import json

    return float(json.loads((folder / "stage.json").read_text(encoding="utf-8"))["seconds"])
