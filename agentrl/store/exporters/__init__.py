"""Training rows for other people's trainers, one module a trainer. Every function is pure: trajectory in, row out."""

from certloop.agentrl.store.exporters.answers import approved_answer, fused_reward
from certloop.agentrl.store.exporters.images import write_images
from certloop.agentrl.store.exporters.swift import swift_row
from certloop.agentrl.store.exporters.tinker import shows_images, tinker_rl_datum, tinker_sft_datum
from certloop.agentrl.store.exporters.trl import trl_messages_row, trl_prompt_completion_row, trl_prompt_row

__all__ = [
    "approved_answer", "fused_reward", "shows_images", "swift_row", "tinker_rl_datum", "tinker_sft_datum", "trl_messages_row",
    "trl_prompt_completion_row", "trl_prompt_row", "write_images",
]  # fmt: skip
