"""Multi-turn episodes: the model may look closer with a zoom tool before it answers; what the tool shows is never trained.

``ZoomEnvironment`` is what TRL's GRPOTrainer plays with (``environment_factory``): it masks the tool's tokens and images itself.
``play`` plays the same episode as serving does, one request after another, and records an ``agentrl`` trajectory: ids as they
were sampled, log-probabilities of the sampling policy, a mask that is 1 on the assistant's tokens only. A test holds the two
together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from certloop.agentrl.trajectory import Action, Outcome, Role, Sampling, Step, ToolResult, Trajectory, Turn, build_tokens

if TYPE_CHECKING:
    from PIL.Image import Image

ZOOM = 2
"""A crop comes back twice as large."""
_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)
_SIDE = 1000


class ZoomEnvironment:
    """One page. Public methods are tools; their docstrings are what the model reads about them."""

    def __init__(self) -> None:
        self._page: Image | None = None
        self._calls = 0

    def reset(self, **row: Any) -> None:
        """A new page: the first image of the row."""
        self._page, self._calls = row["images"][0], 0

    def zoom(self, left: int, top: int, right: int, bottom: int) -> list[dict[str, Any]]:
        """
        Look closer at a part of the page.

        Args:
            left: Left edge, in thousandths of the page's width.
            top: Upper edge, in thousandths of the page's height.
            right: Right edge, in thousandths of the page's width.
            bottom: Lower edge, in thousandths of the page's height.
        """
        assert self._page is not None
        self._calls += 1
        return [{"type": "image", "image": crop(self._page, left, top, right, bottom)}]


def zoom_environment() -> ZoomEnvironment:
    """The factory that the trainer takes."""
    return ZoomEnvironment()


def crop(page: Image, left: int, top: int, right: int, bottom: int) -> Image:
    """The part of the page, enlarged. Raises ValueError for edges outside of it or an empty part: the model reads the message."""
    edges = (left, top, right, bottom)
    if not all(isinstance(e, int) and 0 <= e <= _SIDE for e in edges) or left >= right or top >= bottom:
        raise ValueError(f"edges lie between 0 and {_SIDE}, left before right and top before bottom")
    box = (
        left * page.width // _SIDE,
        top * page.height // _SIDE,
        max(right * page.width // _SIDE, left * page.width // _SIDE + 1),
        max(bottom * page.height // _SIDE, top * page.height // _SIDE + 1),
    )
    part = page.crop(box)
    return part.resize((part.width * ZOOM, part.height * ZOOM))


@dataclass
class _Talk:
    """A conversation as token ids, with the images it holds so far."""

    ids: list[int]
    images: list[Any]
    turns: list[Turn] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def play(
    model: Any,
    processor: Any,
    prompt: str,
    page: Image,
    *,
    max_rounds: int = 2,
    max_new_tokens: int = 256,
    temperature: float = 0.0,
    policy_version: str = "",
    tenant_id: str = "default",
    doc_type: str = "document",
    traj_id: str = "",
) -> Trajectory:
    """Play one episode and return its record. ``temperature`` 0 takes the likeliest token each time."""
    environment = ZoomEnvironment()
    environment.reset(images=[page])
    content = [{"type": "image"}, {"type": "text", "text": prompt}]
    text = processor.apply_chat_template(
        [{"role": "user", "content": content}], tools=[environment.zoom], add_generation_prompt=True, tokenize=False
    )
    talk = _Talk(_encode(processor, text, [page]), [page])
    talk.turns.append(Turn(Role.USER, tuple(talk.ids)))
    answer, outcome = "", Outcome.TRUNCATED
    for number in range(max_rounds + 1):
        start = len(talk.ids)
        new_ids, logprobs = _sample(model, processor, talk, max_new_tokens, temperature)
        talk.ids += new_ids
        talk.turns.append(Turn(Role.ASSISTANT, tuple(new_ids), tuple(logprobs)))
        said = processor.tokenizer.decode(new_ids, skip_special_tokens=True)
        call = _call(said) if number < max_rounds else None
        if call is None:
            talk.steps.append(Step(t=number, tok_start=start, tok_end=len(talk.ids)))
            answer = said
            ended = bool(new_ids) and new_ids[-1] == processor.tokenizer.eos_token_id
            outcome = Outcome.CLEAN if ended else Outcome.TRUNCATED
            break
        talk.steps.append(_use_tool(processor, talk, environment, call, number, start, said))
    tokens = build_tokens(talk.turns)
    return Trajectory(
        traj_id=traj_id or "traj",
        tenant_id=tenant_id,
        doc_type=doc_type,
        created_at=datetime.now(UTC).isoformat(),
        outcome=outcome,
        policy_version=policy_version,
        steps=tuple(talk.steps),
        final_json=answer,
        token_ids=tokens.token_ids,
        logprobs=tokens.logprobs,
        loss_mask=tokens.loss_mask,
        segments=tokens.segments,
        sampling=Sampling(temperature=temperature or 1.0),
    )


def _use_tool(
    processor: Any, talk: _Talk, environment: ZoomEnvironment, call: dict[str, Any], t: int, start: int, said: str
) -> Step:
    """Answer a tool call: the observation's tokens and its image join the conversation."""
    action = Action(str(call.get("name")), dict(call.get("arguments") or {}))
    image = None
    try:
        if action.tool != "zoom":
            raise ValueError(f"Tool {action.tool} not found.")
        image = environment.zoom(**action.args)[0]["image"]
        shown, result = "<|vision_start|><|image_pad|><|vision_end|>", ToolResult(True)
    except (ValueError, TypeError) as error:
        shown = str({"error": str(error)})
        result = ToolResult(False, error_kind="bad_arguments")
    text = f"\n<|im_start|>user\n<tool_response>\n{shown}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    ids = _encode(processor, text, [image] if image is not None else [])
    talk.ids += ids
    talk.turns.append(Turn(Role.OBSERVATION, tuple(ids)))
    if image is not None:
        talk.images.append(image)
    return Step(
        t=t, thought=_CALL.sub("", said).strip(), action=action, tool_result=result, tok_start=start, tok_end=len(talk.ids)
    )


def _call(text: str) -> dict[str, Any] | None:
    """The first tool call of an answer, None when there is none that can be read."""
    found = _CALL.search(text)
    if found is None:
        return None
    try:
        call = json.loads(found.group(1))
    except (ValueError, RecursionError):
        return None
    return call if isinstance(call, dict) and isinstance(call.get("arguments", {}), dict) else None


def _encode(processor: Any, text: str, images: Sequence[Any]) -> list[int]:
    """Token ids of chat text, with each image's placeholder repeated as often as it has tokens."""
    encoded = processor(text=[text], images=list(images) or None, add_special_tokens=False)
    ids = encoded["input_ids"][0]
    return [int(i) for i in ids]


def _sample(model: Any, processor: Any, talk: _Talk, max_new_tokens: int, temperature: float) -> tuple[list[int], list[float]]:
    """The next turn and the log-probabilities of its tokens under the distribution it was sampled from."""
    import torch

    device = next(model.parameters()).device
    pixels = processor.image_processor(images=talk.images, return_tensors="pt").to(device)
    ids = torch.tensor([talk.ids], device=device)
    kinds = (ids == model.config.image_token_id).long()
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0} if temperature else {"do_sample": False}
    with torch.inference_mode():
        out = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=kinds,
            max_new_tokens=max_new_tokens,
            pad_token_id=processor.tokenizer.pad_token_id,
            return_dict_in_generate=True,
            output_logits=True,
            suppress_tokens=[model.config.image_token_id],
            **sampling,
            **pixels,
        )
    new = out.sequences[0, ids.shape[1] :].tolist()
    logits_TV = torch.stack([step[0] for step in out.logits]).float() / (temperature or 1.0)
    logits_TV[:, model.config.image_token_id] = float("-inf")
    logprobs = torch.log_softmax(logits_TV, dim=-1)[range(len(new)), new]
    return new, [min(0.0, float(p)) for p in logprobs]
