"""BERT as an ONNX graph, built from its weights: no tracing, no torch.

The fused operators are onnxruntime's own (`com.microsoft`). In int8, weights have one scale per output
channel and activations one per call; words are stored with one scale per row. Vectors then have a mean cosine
of .994 with float32's (benchmarks/encoders.py); with one scale per tensor it would be .960.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from radixway.encoders.bert import BertWeights, Layer, Linear, Norm
from radixway.encoders.encoding import Floats
from radixway.encoders.files import ModelConfig

_FUSED = "com.microsoft"


def build_graph(weights: BertWeights, config: ModelConfig, precision: Literal["fp32", "int8"]) -> bytes:
    """A serialised model: `ids` [batch, n] int64 → `layer_1`, `layer_2` …, [batch, n, size] float32 each.

    There is no mask: the windows of a batch must be equally long.
    """
    graph = _Graph(config, quantised=precision == "int8")
    states = graph.embed(weights)
    for number, layer in enumerate(weights.layers, start=1):
        states = graph.layer(states, layer, number)
    return graph.serialise()


class _Graph:
    """Nodes and constants, in the making."""

    def __init__(self, config: ModelConfig, *, quantised: bool) -> None:
        self._config = config
        self._quantised = quantised
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def embed(self, weights: BertWeights) -> str:
        words = self._look_up(weights.words)
        self._add("Shape", ["ids"], "length", start=1, end=2)
        zero = self._constant("zero", np.zeros(1, np.int64))
        positions = self._constant("positions", weights.positions)
        used = self._add("Slice", [positions, zero, "length", zero], "used_positions")
        placed = self._add("Add", [words, used], "placed")
        inputs = [placed, *self._norm("embedded", weights.norm)]
        return self._add("LayerNormalization", inputs, "embedded", axis=-1, epsilon=self._config.norm_epsilon)

    def layer(self, states: str, layer: Layer, number: int) -> str:
        at = f"layer_{number}"
        attended = self._attend(states, layer.qkv, f"{at}.attended")
        mixed = self._multiply(attended, layer.out, f"{at}.mixed")
        states = self._add_and_norm(mixed, states, layer.out, layer.attention_norm, f"{at}.middle")
        up = self._multiply(states, layer.up, f"{at}.up")
        inner = self._fused("BiasGelu", [up, self._constant(f"{at}.up.bias", layer.up.bias)], f"{at}.inner")
        down = self._multiply(inner, layer.down, f"{at}.down")
        return self._add_and_norm(down, states, layer.down, layer.norm, at)

    def serialise(self) -> bytes:
        count, size = self._config.layers, self._config.size
        outputs = [
            helper.make_tensor_value_info(f"layer_{n}", onnx.TensorProto.FLOAT, ["batch", "n", size])
            for n in range(1, count + 1)
        ]
        ids = helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["batch", "n"])
        graph = helper.make_graph(self._nodes, "bert", [ids], outputs, self._constants)
        versions = [helper.make_opsetid("", 18), helper.make_opsetid(_FUSED, 1)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=9)
        serialised: bytes = model.SerializeToString(deterministic=True)
        return serialised

    def _look_up(self, words: Floats) -> str:
        if not self._quantised:
            return self._add("Gather", [self._constant("words", words), "ids"], "looked_up")
        quantised, scale = _quantise(words, axis=1)
        rows = self._add("Gather", [self._constant("words", quantised), "ids"], "rows")
        scales = self._add("Gather", [self._constant("words.scale", scale), "ids"], "row_scales")
        cast = self._add("Cast", [rows], "rows_as_floats", to=onnx.TensorProto.FLOAT)
        return self._add("Mul", [cast, scales], "looked_up")

    def _attend(self, states: str, qkv: Linear, name: str) -> str:
        heads, bias = self._config.heads, self._constant(f"{name}.bias", qkv.bias)
        if not self._quantised:
            weight = self._constant(f"{name}.weight", qkv.weight)
            return self._fused("Attention", [states, weight, bias], name, num_heads=heads)
        weight, scale = self._quantised_constant(f"{name}.weight", qkv.weight)
        zero = self._constant(f"{name}.zero", np.zeros(qkv.weight.shape[1], np.int8))
        outputs = [f"{name}.{part}" for part in ("input", "input_scale", "input_zero")]
        self._nodes.append(helper.make_node("DynamicQuantizeLinear", [states], outputs, f"{name}.quantise"))
        inputs = [outputs[0], weight, bias, outputs[1], scale, "", outputs[2], zero]
        return self._fused("QAttention", inputs, name, num_heads=heads)

    def _multiply(self, states: str, linear: Linear, name: str) -> str:
        """Without the bias, which the next operator adds."""
        if not self._quantised:
            return self._add("MatMul", [states, self._constant(f"{name}.weight", linear.weight)], name)
        weight, scale = self._quantised_constant(f"{name}.weight", linear.weight)
        return self._fused("DynamicQuantizeMatMul", [states, weight, scale], name)

    def _add_and_norm(self, change: str, states: str, linear: Linear, norm: Norm, name: str) -> str:
        bias = self._constant(f"{name}.bias", linear.bias)
        inputs = [change, states, *self._norm(name, norm), bias]
        return self._fused("SkipLayerNormalization", inputs, name, epsilon=self._config.norm_epsilon)

    def _norm(self, name: str, norm: Norm) -> list[str]:
        return [self._constant(f"{name}.norm", norm.scale), self._constant(f"{name}.shift", norm.shift)]

    def _quantised_constant(self, name: str, weight: Floats) -> tuple[str, str]:
        """Names of an int8 matrix and of its scales, one per output."""
        quantised, scale = _quantise(weight, axis=0)
        return self._constant(name, quantised), self._constant(f"{name}.scale", scale.reshape(-1))

    def _constant(self, name: str, array: NDArray[np.generic]) -> str:
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def _fused(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [output], output, domain=_FUSED, **attributes))
        return output


def _quantise(weight: Floats, axis: int) -> tuple[NDArray[np.int8], Floats]:
    """Symmetric int8 with one scale per slice along `axis`, which keeps its place with length 1."""
    scale = np.abs(weight).max(axis=axis, keepdims=True) / np.float32(127)
    scale[scale == 0] = 1
    return np.rint(weight / scale).astype(np.int8), scale
