"""Write a Llama of `engine_model.py` as a GGUF for llama.cpp: the same weights, in float32.

    python write_gguf.py MODEL_DIRECTORY FILE

Runs in llama.cpp's own environment, which has `gguf` and `safetensors`; engine_servers.py calls it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gguf
import numpy
from safetensors.numpy import load_file


def write_gguf(directory: Path, file: Path) -> None:
    config = json.loads((directory / "config.json").read_text())
    heads, kv_heads, layers = (
        config[f"num_{name}"] for name in ("attention_heads", "key_value_heads", "hidden_layers")
    )
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(layers)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(config["hidden_size"] // heads)
    writer.add_rope_freq_base(config.get("rope_theta", 10000.0))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _add_tokenizer(writer, directory, config)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, layers)
    for name, weight in load_file(directory / "model.safetensors").items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            weight = _interleaved(weight, heads if "q_proj" in name else kv_heads)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: gguf.GGUFWriter, directory: Path, config: dict[str, int]) -> None:
    tokenizer = json.loads((directory / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    special = {token["content"] for token in tokenizer["added_tokens"]}
    words = sorted(vocabulary, key=vocabulary.__getitem__)
    kinds = [gguf.TokenType.CONTROL if word in special else gguf.TokenType.NORMAL for word in words]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(words)
    writer.add_token_types(kinds)
    writer.add_token_merges(["Ġ a"])  # llama.cpp wants one; it can make no word of this vocabulary
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)


def _interleaved(weight: numpy.ndarray, heads: int) -> numpy.ndarray:
    """llama.cpp rotates neighbours of a head together; a checkpoint has them half a head apart."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return numpy.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns))


if __name__ == "__main__":
    write_gguf(Path(sys.argv[1]), Path(sys.argv[2]))
