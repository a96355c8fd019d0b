"""Real vLLM servers with a tiny model, each in processes of its own, which tell what their caches hold."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import vllm_plugin
from support.free_ports import find_port
from support.small_tokenizers import byte_level_bpe, save
from support.tiny_models import random_model
from support.vllm_environment import vllm_python

BLOCK_TOKENS = 32
"""vLLM's attention on CPUs takes multiples of it."""
MAX_TOKENS = 1024
_START_S = 400
_TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def write_model(directory: Path) -> Path:
    """A Llama of random weights with heads that vLLM takes on CPUs (32 wide), and a chat template."""
    tokenizer = byte_level_bpe(["<|stop|>", "<|start|>", "<|end|>"], 600)
    model = random_model(
        "llama",
        vocab_size=-(-tokenizer.get_vocab_size() // 8) * 8,
        hidden_size=64,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_hidden_layers=2,
        head_dim=32,
        max_position_embeddings=MAX_TOKENS,
        eos_token_id=tokenizer.token_to_id("<|stop|>"),
    )
    model.save_pretrained(directory)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|stop|>",
        "chat_template": _TEMPLATE,
    }
    return save(directory, tokenizer, settings)


@dataclass
class VllmServer:
    """A server that is started, killed and started again, at the same ports."""

    model: Path
    scratch: Path
    """Where its log and its socket lie; short, for the socket's sake."""
    blocks: int = 80
    options: Sequence[str] = ()
    connects: bool = False
    """Its publisher connects to the gateway, which listens."""
    worker: dict[str, Any] = field(default_factory=dict)
    """What the gateway's configuration says of it beside its address."""

    def __post_init__(self) -> None:
        self.port, self._events, self._replay, side = (find_port() for _ in range(4))
        self.env = {"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side)}
        self.url = f"http://127.0.0.1:{self.port}"
        listening = "*" if self.connects else "127.0.0.1"
        self.kv_events = {
            "endpoint": f"tcp://{listening}:{self._events}",
            "replay_endpoint": f"tcp://127.0.0.1:{self._replay}",
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._log = self.scratch / "log"
        self._socket = self.scratch / "held"
        plugin = self.scratch / "plugin"
        described = plugin / "vllm_plugin-0.dist-info"
        described.mkdir(parents=True)
        shutil.copy(vllm_plugin.__file__, plugin)
        (described / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-plugin\nVersion: 0\n")
        (described / "entry_points.txt").write_text("[vllm.general_plugins]\ntold = vllm_plugin:install\n")

    @property
    def section(self) -> dict[str, Any]:
        """The entry of `workers` for it."""
        return {"url": self.url, "kv_events": self.kv_events} | self.worker

    def start(self) -> None:
        """Start it; `wait_ready` says when it answers."""
        published = {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": f"tcp://{'127.0.0.1' if self.connects else '*'}:{self._events}",
            "replay_endpoint": f"tcp://*:{self._replay}",
        }
        command = [
            *(str(vllm_python()), "-m", "vllm.entrypoints.openai.api_server"),
            *("--host", "127.0.0.1", "--port", str(self.port)),
            *("--model", str(self.model), "--served-model-name", "m", "--dtype", "float32"),
            *("--max-model-len", str(MAX_TOKENS), "--block-size", str(BLOCK_TOKENS)),
            *("--num-gpu-blocks-override", str(self.blocks), "--max-num-seqs", "8", "--enforce-eager"),
            *("--enable-prompt-tokens-details", "--kv-events-config", json.dumps(published)),
            *self.options,
        ]
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VLLM"))}
        env |= {
            "PYTHONPATH": str(self.scratch / "plugin"),
            "RADIXWAY_HELD_BLOCKS": str(self._socket),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            **self.env,
        }
        self._socket.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=env, stdout=log, stderr=log, cwd=self.scratch, start_new_session=True
            )

    def wait_ready(self) -> None:
        """Wait until it answers; AssertionError, with the end of its log, if it does not start."""
        assert self._process is not None
        until = time.monotonic() + _START_S
        while time.monotonic() < until and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        raise AssertionError("vLLM did not start:\n" + self._log.read_text(errors="replace")[-6000:])

    def kill(self) -> None:
        """End it and all its processes at once."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def held_hashes(self) -> set[int]:
        """The hashes of all blocks that its cache holds, asked of the cache itself."""
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(str(self._socket))
            answer = b""
            while piece := asked.recv(2**16):
                answer += piece
        return set(json.loads(answer))

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name in its `/metrics`, of those that have `labels`."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as response:
            page = response.read().decode()
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        samples = re.findall(rf"^{re.escape(name)}\{{(.*)\}} (\S+)$", page, re.MULTILINE)
        return sum(float(value) for known, value in samples if all(want in known for want in wanted))


@contextmanager
def running_servers(*servers: VllmServer) -> Iterator[None]:
    """`servers`, started side by side, once they all answer; killed at the end."""
    with ExitStack() as stack:
        for server in servers:
            stack.callback(server.kill)
            server.start()
        for server in servers:
            server.wait_ready()
        yield
