"""The transformer: one decoder for the Llama, Qwen2 and Qwen3 families, over packed tokens.

A step's tokens stand one after another, [T], whichever requests they belong to; only attention, through its
`Plan`, knows where one request ends. So linears see no padding, and a chunk of prefill rides on the weights
that are read for decode anyway.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import embedding, rms_norm, silu

from radixway.engine.architecture import Architecture
from radixway.engine.linear import Linear
from radixway.engine.rope import Rope

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q [T, heads, D], k and v [T, kv_heads, D]) to [T, heads * D]; stores k and v on the way."""


@dataclass(slots=True)
class Layer:
    """Weights of one decoder layer. Query, key and value are one product, gate and up are another."""

    input_norm: Tensor
    qkv: Linear
    qk_norm: Tensor | None
    """[heads + kv_heads, D]: the query norm's weight for each query head, then the key norm's."""
    output: Linear
    post_norm: Tensor
    gate_up: Linear
    down: Linear


@dataclass(slots=True)
class Model:
    """Weights and the forward pass. No state between calls: KV lives in the pool that `attend` writes to."""

    architecture: Architecture
    embedding: Tensor
    layers: list[Layer]
    norm: Tensor
    head: Linear
    rope: Rope

    def hidden(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Final hidden states [T, hidden] of `tokens` [T] at `positions` [T]."""
        shape = self.architecture
        x = embedding(tokens, self.embedding)
        cos_sin = self.rope.at(positions)
        for index, layer in enumerate(self.layers):
            qkv = layer.qkv(self._norm(x, layer.input_norm))
            qk = qkv[:, : shape.q_size + shape.kv_size].view(-1, shape.heads + shape.kv_heads, shape.head_dim)
            if layer.qk_norm is not None:
                qk = rms_norm(qk, (shape.head_dim,), None, shape.norm_eps) * layer.qk_norm
            qk = self.rope.turn(qk, cos_sin)
            v = qkv[:, shape.q_size + shape.kv_size :].view(-1, shape.kv_heads, shape.head_dim)
            x = x + layer.output(attend(index, qk[:, : shape.heads], qk[:, shape.heads :], v))
            gate, up = layer.gate_up(self._norm(x, layer.post_norm)).chunk(2, -1)
            x = x + layer.down(silu(gate).mul_(up))
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """Float32 logits [rows, vocabulary] of final hidden states [rows, hidden]."""
        return self.head(self._norm(hidden, self.norm)).float()

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(x, (x.shape[-1],), weight, self.architecture.norm_eps)
