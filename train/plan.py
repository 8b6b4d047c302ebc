"""What a run takes, before anything starts: memory on each device by part, hours, money. No weights, no torch.

Memory is counted from the shapes of the model: weights, gradients, Adam's two states, the frozen teacher, what the forward pass
keeps for the backward pass, the key-value cache of sampling, and a fixed share for the process. The activation terms were counted
on nano models with torch's saved-tensor hooks (``tests/train/test_plan.py`` counts again), per token or patch and layer: text
``7.6 hidden + 6 q + 2 kv + 4 intermediate``, vision ``11.1 hidden + 2 intermediate``. With gradient checkpointing a layer keeps
its input only, and one layer at a time is computed again. Time is floating point operations over the device's usable share of its
peak, plus sampling at the speed of reading the weights once a token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from certloop.agentrl.backend import Plan, StagePlan
from certloop.train.architecture import Architecture, architecture_of
from certloop.train.config import GspoStage, HardwareSpec, ModelSpec, RunConfig, SftStage, Stage
from certloop.train.nano.form import HEIGHT_PX, WIDTH_PX
from certloop.train.rows import Row, read_rows

GIB = 1 << 30
BYTES = {"bfloat16": 2, "float32": 4}
PROCESS_GIB = {"cpu": 0.9, "cuda": 1.5}
FRAGMENTATION = {"cpu": 0.05, "cuda": 0.10}
CPU_SPEED = {"peak_tflops": 0.08, "memory_gbps": 20.0}
HEAD_CHUNK_TOKENS = 1024
SAMPLING_SLOWDOWN = 3.0
"""Sampling with transformers reaches about a third of what reading the weights would allow; vLLM counts as 1."""
SAMPLE_ROWS = 200
NANO_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Shape:
    """A typical row and how many there are. ``assumed`` when no data folder says so."""

    rows: int
    pixels: float
    prompt_tokens: float
    answer_tokens: float
    images: float = 1.0
    assumed: bool = False


def make_plan(config: RunConfig, shape: Shape | None = None) -> Plan:
    """The plan of a local run. Raises ModelLoadError for a model whose shapes are not known here, TrainDataError for bad rows."""
    config = config.model_copy(update={"hardware": _with_speed(config.hardware)})
    hardware = config.hardware
    student = architecture_of(config.student)
    teacher = architecture_of(config.teacher) if config.teacher is not None else None
    shape = shape or data_shape(config)
    served = config.backend == "swift"  # there the teacher answers from a server of its own
    stages = tuple(_stage(config, stage, student, None if served else teacher, shape) for stage in config.stages)
    hours = math.fsum(s.hours for s in stages)
    notes = []
    devices = hardware.count
    if served and config.teacher is not None and teacher is not None:
        devices += config.swift.teacher_gpus
        share = teacher.parameters * BYTES[config.teacher.dtype] / GIB / config.swift.teacher_gpus
        notes.append(f"the teacher's server takes {config.swift.teacher_gpus} more devices, {share:.1f} GiB of weights on each")
    if shape.assumed:
        pages = f"{shape.rows} pages of {shape.pixels / 1e6:.2g} megapixels"
        why = f"there is no folder {config.data.train}" if config.data.train else "no rows at hand"
        notes.append(f"{why}: {pages} and {shape.answer_tokens:.0f} answer tokens assumed")
    longest = student.page_tokens(shape.pixels) * shape.images + shape.prompt_tokens + shape.answer_tokens
    if longest > config.data.max_length:
        notes.append(f"a typical row takes {longest:.0f} tokens, more than max_length {config.data.max_length}: lower max_pixels")
    return Plan(
        backend=config.backend,
        devices=f"{hardware.count} x {hardware.device}, {hardware.memory_gib:g} GiB each",
        stages=stages,
        hours=hours,
        usd=hours * devices * hardware.usd_per_hour,
        fits=all(s.peak_gib <= hardware.memory_gib for s in stages),
        notes=tuple(notes),
    )


def _with_speed(hardware: HardwareSpec) -> HardwareSpec:
    """With a core's speed where a CPU's is left as the defaults have it, which are an H100's: no CPU has those."""
    defaults, slow = HardwareSpec(), {}
    if hardware.device == "cpu":
        slow = {name: value for name, value in CPU_SPEED.items() if getattr(hardware, name) == getattr(defaults, name)}
    return hardware.model_copy(update=slow)


def data_shape(config: RunConfig) -> Shape:
    """Means over the first rows of the data folder; without one, a certificate photograph and an answer with reasoning (a page of
    the small model's own for that model)."""
    if not config.data.train or not Path(config.data.train).exists():
        if config.student.path.startswith("nano:"):
            return Shape(NANO_ROWS, float(WIDTH_PX * HEIGHT_PX), 60, 110, assumed=True)
        return Shape(10_000, float(config.student.max_pixels or 1_310_720), 400, 700, assumed=True)
    rows = read_rows(Path(config.data.train))
    sample = rows[:SAMPLE_ROWS]
    return Shape(
        rows=len(rows),
        pixels=_mean([_pixels(row, config.student) for row in sample]),
        prompt_tokens=_mean([len(row.prompt) for row in sample]) + 16,
        answer_tokens=_mean([len(row.completion or "") for row in sample]) or 700,
        images=_mean([len(row.images) for row in sample]),
    )


def activation_elements(arch: Architecture, tokens: float, patches: float, *, checkpointing: bool, vision: bool = True) -> float:
    """Numbers that the forward pass keeps for the backward pass. ``vision``: whether the tower is trained."""
    q, kv = arch.heads * arch.head_dim, arch.kv_heads * arch.head_dim
    text_layer = tokens * (7.6 * arch.hidden + 6 * q + 2 * kv + 4 * arch.intermediate)
    vision_layer = patches * (11.1 * arch.vision_hidden + 2 * arch.vision_intermediate) if vision else 0.0
    ends = patches * 3 * arch.temporal * arch.patch**2 + tokens * 4 * arch.hidden
    if not checkpointing:
        return arch.layers * text_layer + arch.vision_depth * vision_layer + ends
    inputs = arch.layers * tokens * arch.hidden + (arch.vision_depth * patches * arch.vision_hidden if vision else 0.0)
    return inputs + max(text_layer, vision_layer) + ends


def stage_memory(
    config: RunConfig, stage: Stage, student: Architecture, teacher: Architecture | None, shape: Shape
) -> dict[str, float]:
    """GiB on one device by part, at the peak of ``stage``."""
    spec, hardware = config.student, config.hardware
    width = BYTES[spec.dtype]
    share = hardware.count if hardware.sharding == "fsdp" else 1
    trained = trained_parameters(spec, student)
    small = 4 if spec.lora is not None else width  # adapters are kept in float32
    page = student.page_tokens(shape.pixels) * shape.images
    tokens = stage.batch_size * (page + shape.prompt_tokens + _answer(stage, shape))
    patches = stage.batch_size * page * student.merge**2
    sampled = stage.batch_size * (stage.updates_per_generation if isinstance(stage, GspoStage) else 1)
    checkpointing = hardware.device == "cuda" and stage.gradient_checkpointing
    vision = not spec.freeze_vision and (spec.lora is None or spec.lora.targets != "language")
    kept = activation_elements(student, tokens, patches, checkpointing=checkpointing, vision=vision)
    adapters = spec.lora.rank * 2 * student.layers * 7 * tokens if spec.lora is not None and not checkpointing else 0.0
    parts = {
        "weights": student.parameters * width / share,
        "adapter": trained * small if spec.lora is not None else 0.0,
        "gradients": trained * small / share,
        "optimiser": 2 * trained * small / share,
        "activations": (kept + adapters) * width,
        "head": 3 * min(tokens, HEAD_CHUNK_TOKENS) * student.vocab * 4,
    }
    if teacher is not None and stage.kind in ("distill", "context-distill"):
        assert config.teacher is not None
        whole = teacher.vocab * teacher.hidden * (1 if teacher.tied else 2)  # the loss reads the vocabulary's tables as they are
        parts["teacher"] = ((teacher.parameters - whole) / share + whole) * BYTES[config.teacher.dtype]
        parts["head"] *= 2
    if not isinstance(stage, SftStage):
        length = page + shape.prompt_tokens + _answer(stage, shape)
        parts["cache"] = sampled * length * student.layers * 2 * student.kv_heads * student.head_dim * width
        if getattr(stage, "vllm", False):
            parts["cache"] = getattr(stage, "vllm_memory", 0.35) * hardware.memory_gib * GIB
    total = math.fsum(parts.values())
    parts["process"] = PROCESS_GIB[hardware.device] * GIB + FRAGMENTATION[hardware.device] * total
    return {name: size / GIB for name, size in parts.items() if size}


def trained_parameters(spec: ModelSpec, arch: Architecture) -> int:
    """How many numbers the optimiser moves."""
    if spec.lora is not None:
        return arch.lora_parameters(spec.lora.rank, vision=spec.lora.targets == "all")
    return arch.text_parameters if spec.freeze_vision else arch.parameters


def stage_steps(stage: Stage, rows: int, devices: int) -> int:
    """Optimiser updates of a stage."""
    if stage.steps is not None:
        return stage.steps
    each = stage.batch_size * stage.accumulation * devices
    pages = each / stage.group_size if isinstance(stage, GspoStage) else each
    return max(1, math.ceil((stage.epochs or 1) * rows / pages))


def step_seconds(config: RunConfig, stage: Stage, student: Architecture, teacher: Architecture | None, shape: Shape) -> float:
    """One optimiser update on one device: sampling, forward and backward, and the teacher's forward."""
    hardware = config.hardware
    speed = hardware.peak_tflops * 1e12 * hardware.utilisation
    n = stage.batch_size * stage.accumulation
    page = student.page_tokens(shape.pixels) * shape.images
    answer = _answer(stage, shape)
    tokens, patches = n * (page + shape.prompt_tokens + answer), n * page * student.merge**2
    text = _body(student)
    full = config.student.lora is None
    again = 1 if hardware.device == "cuda" and stage.gradient_checkpointing else 0
    flops = (2 + (4 if full else 2) + 2 * again) * text * tokens
    flops += (2 + (4 if full and not config.student.freeze_vision else 0)) * student.vision_parameters * patches
    if isinstance(stage, GspoStage):
        flops += 2 * text * tokens  # log-probabilities of the policy that sampled
    if teacher is not None and stage.kind in ("distill", "context-distill"):
        flops += 2 * _body(teacher) * tokens + 2 * teacher.vision_parameters * patches
    seconds = flops / speed
    if not isinstance(stage, SftStage):
        at_once = n * (stage.updates_per_generation if isinstance(stage, GspoStage) else 1)
        read = student.parameters * BYTES[config.student.dtype] / (hardware.memory_gbps * 1e9)
        token = max(read, 2 * text * at_once / speed)
        slow = 1.0 if getattr(stage, "vllm", False) else SAMPLING_SLOWDOWN
        prompt = (2 * text * (page + shape.prompt_tokens) + 2 * student.vision_parameters * page * student.merge**2) * n / speed
        seconds += prompt + answer * token * slow * n / at_once
    return seconds


def plan_table(plan: Plan) -> str:
    """The plan as text."""
    lines = [f"{plan.backend}: {plan.devices}"]
    for stage in plan.stages:
        parts = ", ".join(f"{name} {gib:.2f}" for name, gib in stage.memory_gib.items())
        lines.append(f"  {stage.name}: {stage.peak_gib:.2f} GiB a device ({parts})" if parts else f"  {stage.name}")
        trained = [f"{stage.trained_parameters:,} trained parameters"] if stage.trained_parameters else []
        lines.append("      " + ", ".join([*trained, f"{stage.steps} steps", *([_time(stage.hours)] if stage.hours else [])]))
    total = [*([_time(plan.hours)] if plan.hours else []), *([f"{plan.usd:.2f} USD"] if plan.usd else [])]
    lines += [f"total: {', '.join(total)}"] if total else []
    if plan.fits is not None:
        lines.append(
            "fits"
            if plan.fits
            else 'does NOT fit: lower batch_size or max_pixels, add devices with sharding = "fsdp", or use lora'
        )
    return "\n".join([*lines, *(f"note: {note}" for note in plan.notes)])


def _stage(config: RunConfig, stage: Stage, student: Architecture, teacher: Architecture | None, shape: Shape) -> StagePlan:
    steps = stage_steps(stage, shape.rows, config.hardware.count)
    return StagePlan(
        name=stage.label,
        memory_gib=stage_memory(config, stage, student, teacher, shape),
        hours=steps * step_seconds(config, stage, student, teacher, shape) / 3600,
        steps=steps,
        trained_parameters=trained_parameters(config.student, student),
    )


def _body(arch: Architecture) -> int:
    """Parameters that every token passes: without the input table, with the head."""
    return arch.layers * arch.layer_parameters + arch.vocab * arch.hidden


def _answer(stage: Stage, shape: Shape) -> float:
    longest = getattr(stage, "max_completion_length", None)
    return shape.answer_tokens if longest is None else min(shape.answer_tokens, longest)


def _pixels(row: Row, spec: ModelSpec) -> float:
    from PIL import Image

    sizes = []
    for path in row.images:
        with Image.open(path) as image:
            sizes.append(image.width * image.height)
    pixels = _mean(sizes)
    if spec.max_pixels is not None:
        pixels = min(pixels, spec.max_pixels)
    return max(pixels, spec.min_pixels or 0)


def _mean(values: list[float] | list[int]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _time(hours: float) -> str:
    if hours * 60 < 1:
        return f"{hours * 3600:.1f} seconds"
    return f"{hours:.1f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes"
