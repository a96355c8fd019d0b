"""The transformer: one decoder for the Llama, Qwen2 and Qwen3 families, over packed tokens.

A step's tokens stand one after another, [T], whichever requests they belong to; only attention, through its
`AttentionMetadata`, knows where one request ends. So linears see no padding, and a chunk of prefill uses the
weights that are read for decode anyway.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import embedding, silu

from radixway.engine.architecture import ModelArchitecture
from radixway.engine.linear_layers import PackedLinear, Quantization
from radixway.engine.rope import RotaryEmbedding

AttendFunction = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q [T, heads, D], k and v [T, kv_heads, D]) to [T, heads * D]; stores k and v on the way."""


@dataclass(slots=True)
class DecoderLayer:
    """Weights of one decoder layer. Query, key and value are one product, gate and up are another."""

    input_norm: Tensor
    qkv: PackedLinear
    qk_norm: Tensor | None
    """[heads + kv_heads, D]: the query norm's weight for each query head, then the key norm's."""
    output: PackedLinear
    post_norm: Tensor
    gate_up: PackedLinear
    down: PackedLinear


@dataclass(slots=True)
class TransformerModel:
    """Weights and the forward pass. No state between calls: KV lives in the pool that `attend` writes to."""

    architecture: ModelArchitecture
    embedding: Tensor
    layers: list[DecoderLayer]
    norm: Tensor
    head: PackedLinear
    rope: RotaryEmbedding
    eps: Tensor
    """The norms' epsilon, a float32 scalar on the model's device."""
    quantization: Quantization = "none"
    """How the layers' weights are kept."""

    def forward(self, tokens: Tensor, positions: Tensor, attend: AttendFunction) -> Tensor:
        """Final hidden states [T, hidden] of `tokens` [T] at `positions` [T]."""
        shape = self.architecture
        eps = self.eps
        x = embedding(tokens, self.embedding)
        cos_sin = self.rope.cos_sin_at(positions)
        for index, layer in enumerate(self.layers):
            qkv = layer.qkv(rms_norm(x, layer.input_norm, eps))
            qk = qkv[:, : shape.q_size + shape.kv_size].view(-1, shape.heads + shape.kv_heads, shape.head_dim)
            if layer.qk_norm is not None:
                qk = rms_norm(qk, layer.qk_norm, eps)
            qk = self.rope.rotate(qk, cos_sin)
            v = qkv[:, shape.q_size + shape.kv_size :].view(-1, shape.kv_heads, shape.head_dim)
            x = x + layer.output(attend(index, qk[:, : shape.heads], qk[:, shape.heads :], v))
            gate, up = layer.gate_up(rms_norm(x, layer.post_norm, eps)).chunk(2, -1)
            x = x + layer.down(silu(gate).mul_(up))
        return x

    def compute_logits(self, hidden: Tensor) -> Tensor:
        """Float32 logits [rows, vocabulary] of final hidden states [rows, hidden]."""
        return self.head(rms_norm(hidden, self.norm, self.eps)).float()


def rms_norm(x: Tensor, weight: Tensor, eps: Tensor) -> Tensor:
    """x / sqrt(mean(x²) + eps) * weight over the last dimension, in float32 inside (arXiv:1910.07467).

    On CPU torch has no kernel for it: its composition takes 22 to 31 µs for a few rows, this one 13 to 20.
    """
    norm = vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    scale = torch.addcmul(eps, norm, norm, value=1 / x.shape[-1]).rsqrt_()
    return (x * scale).mul_(weight).to(x.dtype)
