"""The same weights, run faster while training from scratch: pages of one size in one batch, patches embedded by a matrix product.

transformers runs the vision tower image by image and embeds patches by a three-dimensional convolution, both slow on a CPU.
Results are the same up to rounding (a test compares with the model's own forward); only training from scratch uses this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    from certloop.train.nano.batch import PageBatch


class FastVision:
    """``FastVision(model)(pixel_values, grid)``: merged features (batch * cells, hidden) of images that all have one grid."""

    def __init__(self, model: Qwen3VLForConditionalGeneration) -> None:
        self._tower: Any = model.model.visual
        self._places: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]] = {}

    def __call__(self, pixels_NP: torch.Tensor, grid: tuple[int, int]) -> torch.Tensor:
        """``pixels_NP``: the processor's rows without the second, equal image of the temporal pair (N, 3 * 16 * 16)."""
        import torch
        from torch.nn import functional

        tower = self._tower
        patches = grid[0] * grid[1]
        batch = pixels_NP.shape[0] // patches
        kernel = tower.patch_embed.proj.weight.sum(dim=2).flatten(1)
        indices, weights, cos, sin = self._place(grid)
        hidden = functional.linear(pixels_NP, kernel, tower.patch_embed.proj.bias).view(batch, patches, -1)
        hidden = hidden + (tower.pos_embed(indices) * weights[:, :, None]).sum(1)
        for block in tower.blocks:
            hidden = hidden + self._attend(block.attn, block.norm1(hidden), cos, sin)
            hidden = hidden + block.mlp(block.norm2(hidden))
        return torch.as_tensor(tower.merger(hidden.reshape(batch * patches, -1)))

    def _attend(self, attention: Any, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        import torch

        batch, length, width = hidden.shape
        query, key, value = attention.qkv(hidden).view(batch, length, 3, attention.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        query, key = _turn(query, cos, sin), _turn(key, cos, sin)
        scores = (query * attention.scaling) @ key.transpose(-1, -2)
        with torch.autocast("cpu", enabled=False):  # autocast would go through float32, four times the memory traffic
            chances = torch.softmax(scores, dim=-1)
        out = (chances.to(value.dtype) @ value).transpose(1, 2).reshape(batch, length, width)
        return torch.as_tensor(attention.proj(out))

    def _place(self, grid: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Interpolated position embeddings' indices and weights, and the rotary cosines and sines, as the tower computes them."""
        import torch
        from transformers.models.qwen3_vl.modeling_qwen3_vl import (
            get_vision_interpolation_indices_and_weights,
            get_vision_position_ids,
        )

        if grid not in self._places:
            tower, thw = self._tower, torch.tensor([[1, *grid]])
            indices, weights = get_vision_interpolation_indices_and_weights(
                thw,
                num_grid_per_side=tower.num_grid_per_side,
                mode=tower.interpolation_mode,
                align_corners=tower.interpolation_align_corners,
                spatial_merge_size=tower.spatial_merge_size,
                kwargs={},
            )
            cos, sin = tower.rotary_pos_emb(weights, get_vision_position_ids(thw, tower.spatial_merge_size, kwargs={}))
            self._places[grid] = (indices, weights, cos, sin)
        return self._places[grid]


def read_batch(
    model: Qwen3VLForConditionalGeneration, vision: FastVision, batch: PageBatch, *, frozen: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weighted mean loss of the answers' tokens, and the pages' merged vision features (no gradient when ``frozen``)."""
    import torch
    from torch.nn.functional import cross_entropy

    inner: Any = model.model
    with torch.set_grad_enabled(not frozen):
        features = vision(batch.pixel_values, batch.grid)
    embeds = inner.get_input_embeddings()(batch.input_ids)
    places = (batch.input_ids == model.config.image_token_id)[..., None]
    embeds = embeds.masked_scatter(places, features.to(embeds.dtype))
    hidden = inner.language_model(
        inputs_embeds=embeds, position_ids=batch.position_ids, attention_mask=batch.attention_mask, use_cache=False
    ).last_hidden_state
    weights = batch.answer_weights[:, 1:]
    wanted = weights > 0
    scores = model.lm_head(hidden[:, :-1][wanted]).float()
    losses = cross_entropy(scores, batch.input_ids[:, 1:][wanted], reduction="none")
    return (losses * weights[wanted]).sum() / weights.sum(), features


def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    import torch

    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin
