"""BERT as an ONNX graph, built from its weights: no tracing, no torch.

The fused operators are onnxruntime's own (`com.microsoft`). In int8, weights have one scale per output
channel and activations one per call; words are stored with one scale per row. Vectors then have a mean cosine
of .994 with float32's (benchmarks/encoders.py); with one scale per tensor it would be .960.
"""

from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from radixway.semantics.encoders.base import Floats
from radixway.semantics.encoders.bert import BertLayer, BertWeights, LayerNormWeights, LinearWeights
from radixway.semantics.encoders.model_files import BertConfig

_FUSED = "com.microsoft"


def build_graph(weights: BertWeights, config: BertConfig, precision: Literal["fp32", "int8"]) -> bytes:
    """A serialised model: `ids` [batch, n] int64 → `layer_1`, `layer_2` …, [batch, n, size] float32 each.

    There is no mask: the windows of a batch must be equally long.
    """
    graph = _Graph(config, quantised=precision == "int8")
    states = graph.add_embeddings(weights)
    for number, layer in enumerate(weights.layers, start=1):
        states = graph.add_layer(states, layer, number)
    return graph.serialize_model()


class _Graph:
    def __init__(self, config: BertConfig, *, quantised: bool) -> None:
        self._config = config
        self._quantised = quantised
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def add_embeddings(self, weights: BertWeights) -> str:
        words = self._add_lookup(weights.words)
        self._add_node("Shape", ["ids"], "length", start=1, end=2)
        zero = self._add_constant("zero", np.zeros(1, np.int64))
        positions = self._add_constant("positions", weights.positions)
        used = self._add_node("Slice", [positions, zero, "length", zero], "used_positions")
        placed = self._add_node("Add", [words, used], "placed")
        inputs = [placed, *self._add_norm_weights("embedded", weights.norm)]
        return self._add_node(
            "LayerNormalization", inputs, "embedded", axis=-1, epsilon=self._config.norm_epsilon
        )

    def add_layer(self, states: str, layer: BertLayer, number: int) -> str:
        at = f"layer_{number}"
        attended = self._add_attention(states, layer.qkv, f"{at}.attended")
        mixed = self._add_matmul(attended, layer.out, f"{at}.mixed")
        states = self._add_and_norm(mixed, states, layer.out, layer.attention_norm, f"{at}.middle")
        up = self._add_matmul(states, layer.up, f"{at}.up")
        inner = self._add_fused_node(
            "BiasGelu", [up, self._add_constant(f"{at}.up.bias", layer.up.bias)], f"{at}.inner"
        )
        down = self._add_matmul(inner, layer.down, f"{at}.down")
        return self._add_and_norm(down, states, layer.down, layer.norm, at)

    def serialize_model(self) -> bytes:
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

    def _add_lookup(self, words: Floats) -> str:
        if not self._quantised:
            return self._add_node("Gather", [self._add_constant("words", words), "ids"], "looked_up")
        quantised, scale = _quantize(words, axis=1)
        rows = self._add_node("Gather", [self._add_constant("words", quantised), "ids"], "rows")
        scales = self._add_node("Gather", [self._add_constant("words.scale", scale), "ids"], "row_scales")
        cast = self._add_node("Cast", [rows], "rows_as_floats", to=onnx.TensorProto.FLOAT)
        return self._add_node("Mul", [cast, scales], "looked_up")

    def _add_attention(self, states: str, qkv: LinearWeights, name: str) -> str:
        heads, bias = self._config.heads, self._add_constant(f"{name}.bias", qkv.bias)
        if not self._quantised:
            weight = self._add_constant(f"{name}.weight", qkv.weight)
            return self._add_fused_node("Attention", [states, weight, bias], name, num_heads=heads)
        weight, scale = self._add_quantized_constant(f"{name}.weight", qkv.weight)
        zero = self._add_constant(f"{name}.zero", np.zeros(qkv.weight.shape[1], np.int8))
        outputs = [f"{name}.{part}" for part in ("input", "input_scale", "input_zero")]
        self._nodes.append(helper.make_node("DynamicQuantizeLinear", [states], outputs, f"{name}.quantise"))
        inputs = [outputs[0], weight, bias, outputs[1], scale, "", outputs[2], zero]
        return self._add_fused_node("QAttention", inputs, name, num_heads=heads)

    def _add_matmul(self, states: str, linear: LinearWeights, name: str) -> str:
        """Add a product; the next operator adds the bias."""
        if not self._quantised:
            return self._add_node(
                "MatMul", [states, self._add_constant(f"{name}.weight", linear.weight)], name
            )
        weight, scale = self._add_quantized_constant(f"{name}.weight", linear.weight)
        return self._add_fused_node("DynamicQuantizeMatMul", [states, weight, scale], name)

    def _add_and_norm(
        self, change: str, states: str, linear: LinearWeights, norm: LayerNormWeights, name: str
    ) -> str:
        bias = self._add_constant(f"{name}.bias", linear.bias)
        inputs = [change, states, *self._add_norm_weights(name, norm), bias]
        return self._add_fused_node("SkipLayerNormalization", inputs, name, epsilon=self._config.norm_epsilon)

    def _add_norm_weights(self, name: str, norm: LayerNormWeights) -> list[str]:
        return [
            self._add_constant(f"{name}.norm", norm.scale),
            self._add_constant(f"{name}.shift", norm.shift),
        ]

    def _add_quantized_constant(self, name: str, weight: Floats) -> tuple[str, str]:
        """Add an int8 matrix and its scales, one per output; return their names."""
        quantised, scale = _quantize(weight, axis=0)
        return self._add_constant(name, quantised), self._add_constant(f"{name}.scale", scale.reshape(-1))

    def _add_constant(self, name: str, array: NDArray[np.generic]) -> str:
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _add_node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def _add_fused_node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [output], output, domain=_FUSED, **attributes))
        return output


def _quantize(weight: Floats, axis: int) -> tuple[NDArray[np.int8], Floats]:
    """Symmetric int8 with one scale per slice along `axis`, which keeps its place with length 1."""
    scale = np.abs(weight).max(axis=axis, keepdims=True) / np.float32(127)
    scale[scale == 0] = 1
    return np.rint(weight / scale).astype(np.int8), scale
