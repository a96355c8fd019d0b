"""What KV depends on but its tokens: two engines exchange it only where all of this is the same."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass

import torch
import xxhash
from torch import Tensor

from radixway.engine.kv_format import KVDtype
from radixway.engine.tiers.slab_file import digest_fingerprint
from radixway.engine.transformer_model import TransformerModel


@dataclass(slots=True, frozen=True)
class KVIdentity:
    """Page sizes may differ: KV travels by tokens."""

    weights: str
    """A digest of every weight as it is computed with."""
    weight_version: str
    dtype: str
    kv_dtype: KVDtype
    layers: int
    kv_heads: int
    head_dim: int

    @classmethod
    def of_model(cls, model: TransformerModel, weight_version: str, kv_dtype: KVDtype) -> "KVIdentity":
        """Reads all weights: some GB a second."""
        shape = model.architecture
        return cls(
            weights=digest_weights(model),
            weight_version=weight_version,
            dtype=str(model.embedding.dtype),
            kv_dtype=kv_dtype,
            layers=shape.layers,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
        )

    @property
    def digest(self) -> str:
        """All of it in 64 characters."""
        return digest_fingerprint(*astuple(self)).hex()


def digest_tokens(tokens: bytes) -> str:
    """By which two engines see that they mean the same prompt; `tokens` are packed int32."""
    return xxhash.xxh3_128(tokens).hexdigest()


@torch.inference_mode()
def digest_weights(model: TransformerModel) -> str:
    """Of every weight, as it is computed with: some GB a second."""
    digest = xxhash.xxh3_128(repr(model.architecture).encode())
    for tensor in _iter_tensors(model):
        plain = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        digest.update(str(tuple(tensor.shape)).encode())
        digest.update(plain.numpy().data)
    return digest.hexdigest()


def _iter_tensors(model: TransformerModel) -> Iterator[Tensor]:
    yield model.embedding
    for layer in model.layers:
        yield layer.input_norm
        yield layer.post_norm
        if layer.qk_norm is not None:
            yield layer.qk_norm
        for linear in (layer.qkv, layer.output, layer.gate_up, layer.down):
            yield linear.weight
            if linear.bias is not None:
                yield linear.bias
    yield model.norm
    yield model.head.weight
