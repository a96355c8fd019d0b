"""The inputs of KV other than its tokens: KV is reused only if all of them agree."""

import hashlib
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

import torch
import xxhash
from torch import Tensor

from radixway.engine.kv_store import KVDtype
from radixway.engine.transformer_model import TransformerModel

FINGERPRINT_BYTES = 32


@dataclass(slots=True, frozen=True)
class KVIdentity:
    """The inputs of KV that two engines must agree on. Page sizes may differ: KV is sent by tokens."""

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
        """The identity of KV that `model` computes. Reads all weights: some GB a second."""
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
        """Return 64 characters that identify all of it."""
        return digest_fingerprint(*astuple(self)).hex()


@dataclass(slots=True, frozen=True, kw_only=True)
class KVFingerprint:
    """The inputs of KV that a disk cache depends on. KV that differs in any of them is never mixed."""

    weights: str
    """Names the weights by their content, see `digest_weight_files`."""
    weight_version: str
    dtype: str
    kv_dtype: str
    quantization: str
    page_size: int
    layers: int
    kv_heads: int
    head_dim: int

    @property
    def digest(self) -> bytes:
        """32 bytes."""
        return digest_fingerprint(*astuple(self))


def digest_fingerprint(*parts: object) -> bytes:
    """A digest of everything that KV depends on but the tokens, each part as it prints."""
    digest = hashlib.blake2b(digest_size=FINGERPRINT_BYTES, person=b"radixway-kv-1")
    for part in parts:
        text = str(part).encode()
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.digest()


def digest_weight_files(path: Path) -> str:
    """Digest a GGUF file, or config.json and the weights in a directory: xxh3, some GB a second."""
    digest = xxhash.xxh3_128()
    for file in [path] if path.is_file() else [path / "config.json", *sorted(path.glob("*.safetensors"))]:
        digest.update(file.name.encode())
        with file.open("rb") as content:
            while block := content.read(2**22):
                digest.update(block)
    return digest.hexdigest()


def digest_tokens(tokens: bytes) -> str:
    """Digest packed int32 `tokens`, by which two engines check that they mean the same prompt."""
    return xxhash.xxh3_128(tokens).hexdigest()


@torch.inference_mode()
def digest_weights(model: TransformerModel) -> str:
    """Digest every weight of `model`, as it is computed with: some GB a second."""
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
