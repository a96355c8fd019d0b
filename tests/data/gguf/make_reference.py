"""Writes smollm2.json: what llama.cpp makes of the texts below with SmolLM2-135M-Instruct (Q4_1).

    python -m venv /tmp/reference && /tmp/reference/bin/pip install xllamacpp gguf
    /tmp/reference/bin/python tests/data/gguf/make_reference.py SmolLM2-135M-Instruct.Q4_1.gguf

`tokens`: for each pre-tokenizer kind the ids of every text, from copies of the file that name that kind.
`logprobs`: log-probabilities of the token after each prompt, for every 97th token of the vocabulary.
`float32` is of a copy of the file with the same weights dequantized, which differs from ours in nothing but
the order of additions; `stored` is of the file itself, for which llama.cpp rounds activations to eight bits.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

import gguf
import xllamacpp

KINDS = ("smollm", "llama-bpe", "qwen2", "gpt-2", "default")
STRIDE = 97
HERE = Path(__file__).parent


def start_server(path: Path) -> xllamacpp.Server:
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = 1024
    params.n_parallel = 1
    params.warmup = False
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return xllamacpp.Server(params)


def tokenize(server: xllamacpp.Server, text: str) -> list[int]:
    body = json.dumps({"content": text, "parse_special": True, "add_special": False}).encode()
    request = Request(f"{server.listening_address}/tokenize", body, {"content-type": "application/json"})
    with urlopen(request) as answer:
        ids: list[int] = json.load(answer)["tokens"]
    return ids


def read_logprobs(server: xllamacpp.Server, prompt: list[int], size: int) -> list[float]:
    body = {"prompt": prompt, "n_predict": 1, "n_probs": size, "temperature": -1, "cache_prompt": False}
    answer: dict[str, Any] = server.handle_completions(body)
    found = {
        entry["id"]: entry["logprob"]
        for entry in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    }
    return [round(found[i], 4) for i in range(0, size, STRIDE)]


def copy_file(source: Path, target: Path, *, kind: str = "smollm", dequantized: bool = False) -> Path:
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "llama")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.quantization_version"):
            continue
        value = kind if name == "tokenizer.ggml.pre" else field.contents()
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, value, field.types[0], sub_type)
    for tensor in reader.tensors:
        if dequantized:
            writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type))
        else:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def main(path: Path) -> None:
    texts = json.loads((HERE / "texts.json").read_text(encoding="utf-8"))
    reference: dict[str, Any] = {"stride": STRIDE, "tokens": {}, "logprobs": {}}
    with TemporaryDirectory() as folder:
        for kind in KINDS:
            server = start_server(copy_file(path, Path(folder, "copy.gguf"), kind=kind))
            reference["tokens"][kind] = [tokenize(server, text) for text in texts["texts"]]
            del server
        for name in ("float32", "stored"):
            file = copy_file(path, Path(folder, "copy.gguf"), dequantized=True) if name == "float32" else path
            server = start_server(file)
            prompts = [tokenize(server, prompt) for prompt in texts["prompts"]]
            reference["logprobs"][name] = [read_logprobs(server, prompt, 49152) for prompt in prompts]
            del server
    (HERE / "smollm2.json").write_text(json.dumps(reference, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
