"""Trains nano from scratch: glyphs, strips, pages. `python -m certloop.train.nano.train --out DIR [--recipe FILE]`.

A run writes `log.jsonl` (a row a check, with CPU minutes), `snapshots/STEP` (loadable folders along the page stage), `final`, and
`checkpoint.safetensors`, from which the same command goes on after a kill. One torch thread, bfloat16 products.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certloop.train.errors import CheckpointError, LossError
from certloop.train.nano.recipe import Recipe, Stage, read_recipe

if TYPE_CHECKING:
    import torch

CHECKPOINT = "checkpoint.safetensors"


class Run:
    """One run from scratch in ``out``; :meth:`go` starts it or takes it up where its checkpoint stands."""

    def __init__(self, out: Path, recipe: Recipe) -> None:
        import torch

        from certloop.train.nano.batch import Collator
        from certloop.train.nano.fast import FastVision
        from certloop.train.nano.glyphs import build_glyph_head
        from certloop.train.nano.model import build_nano

        self.out, self.recipe = out, recipe
        out.mkdir(parents=True, exist_ok=True)
        self.model, self.processor = build_nano(recipe.model)
        self.model.model.language_model.set_attn_implementation("eager")  # faster than flash attention's backward pass on a CPU
        self.vision = FastVision(self.model)
        self.collator = Collator(self.model, self.processor)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            self.head: Any = build_glyph_head(recipe.model.hidden)
        self.cpu_s, self._since = 0.0, time.process_time()
        self._saved_at = time.monotonic()

    def go(self) -> None:
        """Run every stage that the checkpoint has not finished, then save ``final``."""
        from certloop.train.nano.model import save_nano

        done, state = self._resume()
        stages: tuple[tuple[str, Stage, Callable[[int], Any]], ...] = (
            ("glyphs", self.recipe.glyphs, self._glyph_step),
            ("strips", self.recipe.strips, lambda step: self._page_step(step, strip=True)),
            ("pages", self.recipe.pages, lambda step: self._page_step(step, strip=False)),
        )
        for name, stage, loss_of in stages:
            start = done.get(name, 0)
            if start < stage.steps:
                self._stage(name, stage, loss_of, start, state if start else {})
                done[name] = stage.steps
        save_nano(self.model, self.processor, self.out / "final")

    def _stage(self, name: str, stage: Stage, loss_of: Callable[[int], Any], start: int, state: dict[str, torch.Tensor]) -> None:
        import torch

        from certloop.train.nano.optimiser import Pair

        named = dict(self._trained(name))
        names = {id(parameter): key for key, parameter in named.items()}
        pair = Pair(named.items(), muon=stage.muon, adam=stage.adam)
        pair.restore(state, names)
        losses: list[float] = []
        rights: list[float] = []
        self.model.train()
        for step in range(start, stage.steps):
            pair.set_rate(_rate(step, stage))
            with torch.autocast("cpu", torch.bfloat16):
                loss, right = loss_of(step)
            losses.append(float(loss.detach()))
            if not math.isfinite(losses[-1]):
                raise LossError(f"the loss of {name} became {losses[-1]} at step {step}; lower the stage's rates")
            loss.backward()
            pair.step()
            rights.append(right)
            finished = step + 1
            if finished % self.recipe.checks.every == 0 or finished == stage.steps:
                self._log(name, finished, losses, rights)
                losses, rights = [], []
            if name == "pages" and finished % max(1, stage.steps // self.recipe.checks.snapshots) == 0:
                self._snapshot(finished)
            if time.monotonic() - self._saved_at > self.recipe.checks.checkpoint_s or finished == stage.steps:
                self._save(name, finished, pair.tensors(names))

    def _glyph_step(self, step: int) -> tuple[torch.Tensor, float]:
        import torch

        from certloop.train.nano.batch import patches, slot_targets
        from certloop.train.nano.glyphs import HEIGHT_PX, WIDTH_PX, glyph_loss, glyph_strips
        from certloop.train.nano.tokenizer import PATCH_PX
        from certloop.train.nano.vocabulary import page_glyphs

        stage, every = self.recipe.glyphs, len(page_glyphs())
        if stage.whole_pages and step % stage.whole_pages == stage.whole_pages - 1:
            return self._glyphs_of_pages(step)
        grown = min(1.0, step / max(1.0, stage.easy * stage.steps))
        pixels, chars, centres = glyph_strips(
            self.recipe.seed, step, stage.batch, classes=min(every, 40 + int(grown * every)), strength=0.2 + 0.8 * grown
        )
        features = self.vision(torch.from_numpy(patches(pixels)), (HEIGHT_PX // PATCH_PX, WIDTH_PX // PATCH_PX))
        return glyph_loss(
            self.head, features, torch.from_numpy(slot_targets(chars, centres, HEIGHT_PX, WIDTH_PX)), self._dice(step)
        )

    def _glyphs_of_pages(self, step: int) -> tuple[torch.Tensor, float]:
        """Now and then whole pages, or the tower's sense of place would fit strips alone."""
        from certloop.train.nano.examples import example_batch
        from certloop.train.nano.glyphs import glyph_loss

        batch = example_batch(self.collator, self.recipe.seed + 2, step, self.recipe.glyphs.batch // 4)
        features = self.vision(batch.pixel_values, batch.grid)
        return glyph_loss(self.head, features, batch.slots, self._dice(step))

    def _page_step(self, step: int, *, strip: bool) -> tuple[torch.Tensor, float]:
        from certloop.train.nano.examples import example_batch
        from certloop.train.nano.fast import read_batch
        from certloop.train.nano.glyphs import glyph_loss

        stage = self.recipe.strips if strip else self.recipe.pages
        batch = example_batch(self.collator, self.recipe.seed + strip, step, stage.batch, strip=strip)
        frozen = step < stage.frozen * stage.steps
        loss, features = read_batch(self.model, self.vision, batch, frozen=frozen)
        seen, right = glyph_loss(self.head, features, batch.slots, self._dice(step))
        return (loss if frozen else loss + stage.glyph_weight * seen), right

    def _trained(self, name: str) -> Iterator[tuple[str, torch.nn.Parameter]]:
        whole: Any = self.model.model.visual if name == "glyphs" else self.model
        yield from ((f"model.visual.{key}" if name == "glyphs" else key, value) for key, value in whole.named_parameters())
        yield from ((f"glyph_head.{key}", value) for key, value in self.head.named_parameters())

    def _dice(self, step: int) -> torch.Generator:
        import torch

        return torch.Generator().manual_seed(self.recipe.seed * 1_000_003 + step)

    def _log(self, name: str, step: int, losses: list[float], rights: list[float]) -> None:
        self._count()
        row: dict[str, Any] = {
            "stage": name,
            "step": step,
            "cpu_min": round(self.cpu_s / 60, 2),
            "loss": round(sum(losses) / len(losses), 4),
            "glyphs": round(sum(rights) / len(rights), 4),
        }
        if name == "pages":
            row |= self._check()
        line = json.dumps(row, ensure_ascii=False)
        with (self.out / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        print(line, file=sys.stderr, flush=True)  # noqa: T201

    def _check(self) -> dict[str, Any]:
        from certloop.train.nano.evaluate import read_pages, score_pages
        from certloop.train.nano.page import nano_pages

        pages = nano_pages(self.recipe.checks.seed, self.recipe.checks.pages)
        self.model.eval()
        found = score_pages(pages, read_pages(self.model, self.processor, pages))
        self.model.train()
        return {
            "strict_f1": round(found.strict.mean, 4),
            "soft_f1": round(found.soft.mean, 4),
            "json": round(found.valid, 4),
            "exact": {label: round(rate, 3) for label, rate in found.exact.items()},
        }

    def _snapshot(self, step: int) -> None:
        from certloop.train.nano.model import save_nano

        save_nano(self.model, self.processor, self.out / "snapshots" / f"{step:05d}")

    def _count(self) -> None:
        now = time.process_time()
        self.cpu_s, self._since = self.cpu_s + now - self._since, now

    def _save(self, name: str, step: int, state: dict[str, torch.Tensor]) -> None:
        """Replace the checkpoint in one move: a kill leaves the old one or the new one."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        self._count()
        tensors = {f"state.{key}": value for key, value in state.items()}
        tensors |= {f"weight.{key}": value.detach().clone().contiguous() for key, value in self._weights().items()}
        done = {"stage": name, "step": step, "cpu_s": round(self.cpu_s, 1)}
        partial = self.out / (CHECKPOINT + ".partial")
        try:
            save_file(tensors, partial, metadata={"done": json.dumps(done)})
            partial.replace(self.out / CHECKPOINT)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"step {step} of {name} cannot be written to {self.out.name}: {error}; free space") from None
        self._saved_at = time.monotonic()

    def _weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters()) | {f"glyph_head.{k}": v for k, v in self.head.named_parameters()}

    def _resume(self) -> tuple[dict[str, int], dict[str, torch.Tensor]]:
        import torch
        from safetensors import SafetensorError, safe_open

        path = self.out / CHECKPOINT
        if not path.is_file():
            return {}, {}
        try:
            with safe_open(path, "pt") as file:
                done = json.loads(file.metadata()["done"])
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - no mapping
        except (OSError, SafetensorError, TypeError, KeyError, ValueError) as error:
            raise CheckpointError(f"{CHECKPOINT} of {self.out.name} cannot be read: {error}; remove it to start again") from None
        with torch.no_grad():
            for key, parameter in self._weights().items():
                parameter.copy_(tensors[f"weight.{key}"])
        self.cpu_s = done["cpu_s"]
        order = ("glyphs", "strips", "pages")
        steps = {name: getattr(self.recipe, name).steps for name in order[: order.index(done["stage"])]}
        state = {key.removeprefix("state."): value for key, value in tensors.items() if key.startswith("state.")}
        return steps | {done["stage"]: done["step"]}, state


def _rate(step: int, stage: Stage) -> float:
    """Warm up over 50 steps, hold, then fall in a line to 3 % of the base rate."""
    at = step / stage.steps
    fall = 1.0 if at < stage.hold else max(0.03, (1 - at) / (1 - stage.hold))
    return min(1.0, (step + 1) / 50) * fall


def train_from_scratch(out: Path, recipe: Path | None = None) -> Path:
    """Train in ``out``, or go on there, on one thread; the committed recipe by default. Returns the folder of the trained model.

    Raises TrainConfigError, CheckpointError and LossError.
    """
    import torch
    from transformers.utils import logging

    torch.set_num_threads(1)
    logging.disable_progress_bar()
    Run(out, read_recipe(recipe)).go()
    return out / "final"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train nano from scratch.")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run; a run that was killed goes on from there")
    parser.add_argument("--recipe", type=Path, help="TOML of the same form as recipe.toml")
    given = parser.parse_args(arguments)
    train_from_scratch(given.out, given.recipe)


if __name__ == "__main__":
    main()
