"""Nano's tokeniser and processor: one token a character, and one for each JSON key, separator and special mark.

The processor is Qwen3-VL's own class with its image and video processors (patches of 16, merged 2 x 2, mean .9, deviation .3:
pages are mostly white). The chat template is Qwen3-VL's, byte for byte, so that every trainer that knows it treats nano like its
big relatives.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from certloop.train.nano.vocabulary import HERE, TYPE_ID, nano_type, page_glyphs, words

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3VLProcessor

SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>",
    "<|video_pad|>", "<|unk|>",
)  # fmt: skip
PADDING, END, UNKNOWN = "<|endoftext|>", "<|im_end|>", "<|unk|>"
_MARKUP = (
    "<guidance>", "</guidance>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>",
    "<think>", "</think>",
)  # fmt: skip
_JSON = ('{"', '": "', '", "', '"}', '": null', ', "')
_ROLES = ("system", "user", "assistant", "tool")
PATCH_PX, MERGE = 16, 2
IMAGE_MEAN, IMAGE_STD = 0.9, 0.3
MAX_PIXELS = 768 * 768


@lru_cache(maxsize=1)
def vocabulary() -> tuple[str, ...]:
    """Every token in the order of its id."""
    labels = [spec.label for spec in nano_type().fields.values()]
    ascii_text = [chr(c) for c in range(32, 127)]
    prompt = (HERE / "types" / TYPE_ID / "prompt.txt").read_text(encoding="utf-8")
    marks = "，。；：、？！（）《》“”‘’—…·→＝"
    tokens = [
        *SPECIAL,
        *_MARKUP,
        *_JSON,
        *_ROLES,
        *labels,
        "\n",
        *ascii_text,
        *page_glyphs(),
        *prompt,
        *marks,
        *words().reasoning,
    ]
    return tuple(dict.fromkeys(tokens))


def build_tokenizer() -> PreTrainedTokenizerFast:
    """The tokeniser; decoding joins tokens without anything between them, so that known text comes back as it was."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    tokens = vocabulary()
    inner = Tokenizer(models.WordLevel({token: n for n, token in enumerate(tokens)}, unk_token=UNKNOWN))
    long = sorted((t for t in tokens if len(t) > 1 and t not in SPECIAL), key=lambda t: (-len(t), t))
    pattern = "|".join(_escape(token) for token in long) + r"|[\s\S]"
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    inner.decoder = decoders.Fuse()
    inner.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return _wrap(inner)


def _wrap(inner: object) -> PreTrainedTokenizerFast:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=PADDING,
        eos_token=END,
        unk_token=UNKNOWN,
        model_max_length=4096,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template=(HERE / "chat_template.jinja").read_text(encoding="utf-8"),
    )


def build_processor() -> Qwen3VLProcessor:
    """Qwen3-VL's processor over nano's tokeniser."""
    from transformers import Qwen2VLImageProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor

    size = {"shortest_edge": (PATCH_PX * MERGE) ** 2, "longest_edge": MAX_PIXELS}
    common = {
        "patch_size": PATCH_PX,
        "merge_size": MERGE,
        "temporal_patch_size": 2,
        "image_mean": [IMAGE_MEAN] * 3,
        "image_std": [IMAGE_STD] * 3,
        "size": size,
    }
    return Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**common),
        tokenizer=build_tokenizer(),
        video_processor=Qwen3VLVideoProcessor(**common),
        chat_template=(HERE / "chat_template.jinja").read_text(encoding="utf-8"),
    )


def _escape(token: str) -> str:
    return "".join("\\" + char if char in r"\.^$*+?{}[]|()<>/-" else char for char in token)
