"""The models of MMLU-Pro's published results, in pools of like size."""

from __future__ import annotations

from collections.abc import Mapping

ACTIVE_B = {
    "Llama-2-7b-hf": 7,
    "Meta-Llama-3-8B": 8,
    "Meta-Llama-3_1-8B": 8,
    "Meta-Llama-3_1-8B-Instruct": 8,
    "Mistral-7B-Instruct-v0.1": 7.2,
    "Mistral-7B-Instruct-v0.2": 7.2,
    "Mistral-7B-v0.1": 7.2,
    "Mistral-7B-v0.2-hf": 7.2,
    "Qwen1.5-7B-Chat": 7.7,
    "gemma-7b": 8.5,
    "mathstral-7B": 7.2,
    "Phi-3-mini-4k-instruct": 3.8,
    "Yi-6B": 6,
    "Yi-6b-Chat": 6,
    "Llama-2-70b-hf": 70,
    "Meta-Llama-3-70B": 70,
    "Meta-Llama-3_1-70B": 70,
    "Mixtral-8x7B-Instruct-v0.1": 12.9,
    "Mixtral-8x7B-v0.1": 12.9,
    "Qwen1.5-72B-Chat": 72,
    "Qwen1.5-110B": 111,
    "Yi-34B": 34,
    "c4ai-command-r-v01": 35,
    "jamba-1.5-large": 94,
}
"""Billions of parameters that a token passes: what a token costs, for want of prices."""

_TO_8B = (
    "Llama-2-7b-hf",
    "Meta-Llama-3-8B",
    "Meta-Llama-3_1-8B",
    "Meta-Llama-3_1-8B-Instruct",
    "Mistral-7B-Instruct-v0.1",
    "Mistral-7B-Instruct-v0.2",
    "Mistral-7B-v0.1",
    "Mistral-7B-v0.2-hf",
    "Qwen1.5-7B-Chat",
    "gemma-7b",
    "mathstral-7B",
)
_MID = (
    "Meta-Llama-3-70B",
    "Meta-Llama-3_1-70B",
    "Qwen1.5-110B",
    "Qwen1.5-72B-Chat",
    "jamba-1.5-large",
    "Mixtral-8x7B-Instruct-v0.1",
    "Mixtral-8x7B-v0.1",
    "Yi-34B",
    "Llama-2-70b-hf",
    "c4ai-command-r-v01",
)
POOLS: Mapping[str, tuple[str, ...]] = {
    "7–8B": _TO_8B,
    "up to 8B": (*_TO_8B, "Phi-3-mini-4k-instruct", "Yi-6B", "Yi-6b-Chat"),
    "mid": _MID,
    "mid and up to 8B": (*_MID, *_TO_8B, "Phi-3-mini-4k-instruct", "Yi-6B", "Yi-6b-Chat"),
}


def cost_of(model: str) -> float:
    """Billions of active parameters; 1 where they are not known."""
    return ACTIVE_B.get(model, 1.0)
