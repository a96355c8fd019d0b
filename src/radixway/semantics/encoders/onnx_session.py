"""ONNX models in onnxruntime: those that were prepared here, and those that a directory brings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import onnxruntime  # type: ignore[import-untyped]

from radixway.semantics.encoders.base import EncoderError, Floats, Ints


def open_session(model: Path | bytes) -> onnxruntime.InferenceSession:
    """Open a session on one thread. Raises EncoderError for an invalid model, or one for another machine."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common name
        raise EncoderError(
            f"onnxruntime cannot load the model: {str(error).partition(chr(10))[0]}"
        ) from error


class OnnxBert:
    """A BERT that `build_graph` made."""

    def __init__(self, model: Path | bytes, precision: Literal["fp32", "int8"]) -> None:
        self.precision = precision
        self._session = open_session(model)

    def run_window(self, ids: Ints, layers: Sequence[int]) -> list[Floats]:
        """See `EncoderBackbone`."""
        names = [f"layer_{layer}" for layer in layers]
        return [states[0] for states in self._session.run(names, {"ids": ids[np.newaxis].astype(np.int64)})]


class OnnxSentenceModel:
    """A sentence model of any architecture, as exporters write it: ids and mask in, last states out."""

    precision = "onnx"

    def __init__(self, path: Path) -> None:
        self._session = open_session(path)
        inputs = [tensor.name for tensor in self._session.get_inputs()]
        unknown = set(inputs) - {"input_ids", "attention_mask", "token_type_ids"}
        outputs = {tensor.name: tensor.shape for tensor in self._session.get_outputs()}
        if unknown or "last_hidden_state" not in outputs:
            raise EncoderError(
                f"{path} takes {inputs} and gives {list(outputs)}; needed is last_hidden_state"
            )
        size = outputs["last_hidden_state"][-1]
        if not isinstance(size, int):
            raise EncoderError(f"{path} does not say how long its vectors are")
        self.size = size
        self._inputs = inputs

    def run_window(self, ids: Ints, layers: Sequence[int]) -> list[Floats]:
        """See `EncoderBackbone`; there is one layer to ask for."""
        row = ids[np.newaxis].astype(np.int64)
        values = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        (states,) = self._session.run(["last_hidden_state"], {name: values[name] for name in self._inputs})
        return [states[0] for _ in layers]
