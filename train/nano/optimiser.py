"""Muon for matrices, AdamW for everything else, as one pair with one schedule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


class Pair:
    """``torch.optim.Muon`` for two-dimensional weights except embeddings, ``torch.optim.AdamW`` for the rest.

    ``set_rate(x)`` scales both base rates by x in [0, 1].
    """

    def __init__(self, named: Iterable[tuple[str, torch.nn.Parameter]], *, muon: float, adam: float) -> None:
        import torch

        named = list(named)
        matrices = [p for name, p in named if p.ndim == 2 and "embed" not in name and "head_out" not in name]
        chosen = {id(p) for p in matrices}
        rest = [p for _, p in named if id(p) not in chosen]
        self._muon = torch.optim.Muon(matrices, lr=muon, weight_decay=0.01, momentum=0.95)
        self._adam = torch.optim.AdamW(rest, lr=adam, betas=(0.9, 0.98), weight_decay=0.0)
        self._base = (muon, adam)
        self._parameters = [p for _, p in named]

    def set_rate(self, scale: float) -> None:
        for optimiser, base in zip((self._muon, self._adam), self._base, strict=True):
            for group in optimiser.param_groups:
                group["lr"] = base * scale

    def step(self, clip: float = 1.0) -> float:
        """Clip the gradient's norm, update, clear. Returns the norm before clipping."""
        import torch

        norm = torch.nn.utils.clip_grad_norm_(self._parameters, clip)
        self._muon.step()  # type: ignore[no-untyped-call]
        self._adam.step()
        self._muon.zero_grad(set_to_none=True)
        self._adam.zero_grad(set_to_none=True)
        return float(norm)

    def tensors(self, names: dict[int, str]) -> dict[str, torch.Tensor]:
        """The state as named tensors, for a safetensors checkpoint; ``names`` maps ``id(parameter)`` to its name."""
        import torch

        out = {}
        for kind, optimiser in (("muon", self._muon), ("adam", self._adam)):
            for parameter, state in optimiser.state.items():
                for key, value in state.items():
                    out[f"{kind}.{names[id(parameter)]}.{key}"] = torch.as_tensor(value).detach().clone().contiguous()
        return out

    def restore(self, tensors: dict[str, torch.Tensor], names: dict[int, str]) -> None:
        """Put back what :meth:`tensors` returned; parameters it does not name start afresh."""
        by_name = {names[id(p)]: p for p in self._parameters}
        for key, value in tensors.items():
            kind, rest = key.split(".", 1)
            name, entry = rest.rsplit(".", 1)
            if name in by_name:
                (self._muon if kind == "muon" else self._adam).state[by_name[name]][entry] = value
