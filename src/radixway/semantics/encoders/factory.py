"""From the configuration to an encoder that runs."""

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from radixway.core.config import EncodersConfig, radixway_home
from radixway.semantics.encoders.base import EncoderError, TextEncoder
from radixway.semantics.encoders.bert import NumpyBert, read_bert
from radixway.semantics.encoders.model_files import (
    BertConfig,
    file_checksum,
    find_model,
    prepare_file,
    read_config,
)
from radixway.semantics.encoders.sentence_encoder import EncoderBackbone, SentenceEncoder
from radixway.semantics.encoders.service import EncoderService
from radixway.semantics.encoders.word_pieces import WordPieces

log = logging.getLogger(__name__)

_GRAPH_VERSION = 1
"""Part of a prepared file's name; raised with every change of onnx_graph.py to numbers or names."""

_ONNX_FILES = ("model.onnx", "onnx/model.onnx")


def load_encoder(config: EncodersConfig) -> TextEncoder:
    """Load the sentence model that `config` names. Blocks for a second, for some if it must be prepared.

    A BERT runs from its safetensors; another architecture from the ONNX file in its directory. Raises
    EncoderError, which says what is wrong or what to install.
    """
    directory = find_model(config.model)
    shape = read_config(directory)
    pieces = WordPieces(directory, shape.window)
    name = config.model.rstrip("/").rpartition("/")[2]
    if shape.kind != "bert" or not (directory / "model.safetensors").is_file():
        return _onnx_file_encoder(name, directory, shape, pieces)
    weights = file_checksum(directory / "model.safetensors")
    backbone = _build_backbone(config, f"{name}-{weights[:12]}", directory / "model.safetensors", shape)
    return SentenceEncoder(name, weights, shape, pieces, backbone, tuple(range(1, shape.layers + 1)))


def build_service(
    config: EncodersConfig, category: Path | None = None, mapping: Path | None = None
) -> EncoderService:
    """Return the service for the model that `config` names, not started.

    `category`: a classifier that says what domain texts belong to, by default the one in
    `config.classifiers`; `mapping`: its labels, where they do not lie beside it.
    """
    return EncoderService(
        lambda: _with_classifier(load_encoder(config), config, category, mapping),
        threads=config.threads,
        queue=config.queue,
    )


def start_service(
    config: EncodersConfig, category: Path | None = None, mapping: Path | None = None
) -> EncoderService:
    """Build the service; its model is loaded from now on under `preload`, else with the first text."""
    service = build_service(config, category, mapping)
    if config.preload:
        service.start()
    return service


def _with_classifier(
    encoder: TextEncoder, config: EncodersConfig, category: Path | None, mapping: Path | None
) -> TextEncoder:
    if category is None and config.classifiers is None:
        return encoder
    from radixway.semantics.encoders.classifiers.category_head import (
        find_category_classifier,
        with_categories,
    )

    path = category or find_category_classifier(config.classifiers)
    return encoder if path is None else with_categories(encoder, path, mapping)


def _build_backbone(config: EncodersConfig, name: str, weights: Path, shape: BertConfig) -> EncoderBackbone:
    """Build the configured backbone; `auto` is int8, or numpy where that fails, which is logged once."""
    if config.backend == "numpy":
        return NumpyBert(read_bert(weights, shape), shape)
    precision: Literal["fp32", "int8"] = "fp32" if config.backend == "fp32" else "int8"
    home = (config.home or radixway_home() / "encoders").expanduser()
    try:
        return _onnx_backbone(home, name, weights, shape, precision)
    except EncoderError as error:
        if config.backend != "auto":
            raise
        log.warning("%s runs in numpy, several times slower: %s", name, error)
        return NumpyBert(read_bert(weights, shape), shape)


def _onnx_backbone(
    home: Path, name: str, weights: Path, shape: BertConfig, precision: Literal["fp32", "int8"]
) -> EncoderBackbone:
    if find_spec("onnxruntime") is None:
        raise EncoderError("onnxruntime is missing, which radixway[semantic] brings")
    from radixway.semantics.encoders.onnx_session import OnnxBert

    def make() -> bytes:
        if find_spec("onnx") is None:
            raise EncoderError("onnx is missing, which radixway[semantic] brings")
        from radixway.semantics.encoders.onnx_graph import build_graph

        return build_graph(read_bert(weights, shape), shape, precision)

    file = home / f"{name}-{precision}.{_GRAPH_VERSION}.onnx"
    return OnnxBert(prepare_file(file, f"{name} in {precision}", make), precision)


def _onnx_file_encoder(name: str, directory: Path, shape: BertConfig, pieces: WordPieces) -> TextEncoder:
    path = next((directory / file for file in _ONNX_FILES if (directory / file).is_file()), None)
    if path is None:
        kind = shape.kind or "model of no stated kind"
        raise EncoderError(f"{directory} holds a {kind}: it needs a BERT's model.safetensors or a model.onnx")
    if find_spec("onnxruntime") is None:
        raise EncoderError(f"{path} needs onnxruntime, which radixway[semantic] brings")
    from radixway.semantics.encoders.onnx_session import OnnxSentenceModel

    backbone = OnnxSentenceModel(path)
    if backbone.size != shape.size:
        raise EncoderError(f"{path} has vectors of {backbone.size}, config.json says {shape.size}")
    return SentenceEncoder(name, file_checksum(path), shape, pieces, backbone, (shape.layers,))
