"""The servers that `engine_peers.py` measures: how each is installed, started on one thread, ended.

All load the same float32 weights, listen on a free port of 127.0.0.1 and answer `/v1/completions` in streams.
What is said of the peers' options in README.md was tried once each, on a busy machine.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from environments import PeerUnavailableError, clean_environment, environment
from processes import free_ports, last_words, stop

HERE = Path(__file__).resolve().parent
START_S = 120.0
KV_TOKENS = 2**15  # what every server may keep in its cache
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(slots=True, frozen=True)
class Setting:
    """What a server is started with."""

    python: Path
    """The interpreter of the server's environment."""
    model: Path
    """A directory with config.json, model.safetensors and tokenizer.json."""
    kv_bytes: int
    """`KV_TOKENS` of this model's keys and values."""
    at_once: int
    """Most requests that will be open at the same time."""
    port: int
    scratch: Path


@dataclass(slots=True, frozen=True)
class Engine:
    """A kind of server. `body` is what its requests say beside model, prompt, length and temperature."""

    name: str
    command: Callable[[Setting], tuple[list[str], Mapping[str, str]]]
    """Arguments and environment variables."""
    requirements: tuple[str, ...] = ()
    build_env: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, object] = field(default_factory=dict)
    note: str = ""


@dataclass(slots=True)
class Server:
    """An engine that runs."""

    engine: Engine
    url: str
    pid: int
    model: str
    fault: str | None = None
    """Why it is no longer measured."""

    @property
    def name(self) -> str:
        return self.engine.name


def _radixway(setting: Setting) -> tuple[list[str], Mapping[str, str]]:
    options = {
        "dtype": "float32",
        "threads": 1,
        "max_running": setting.at_once,
        "kv_tokens": KV_TOKENS,
        "served_model_name": setting.model,
    }
    env = {f"RADIXWAY__ENGINE__{key.upper()}": str(value) for key, value in options.items()}
    return [
        *(sys.executable, "-m", "radixway", "engine"),
        *("--host", "127.0.0.1", "--port", str(setting.port), "--model", str(setting.model)),
    ], env | {"RADIXWAY_HOME": str(setting.scratch)}


def _transformers(setting: Setting) -> tuple[list[str], Mapping[str, str]]:
    block = 32
    (setting.scratch / "hub").mkdir()  # it looks for models there before it takes a directory
    return [
        *(str(setting.python.with_name("transformers")), "serve", str(setting.model)),
        *("--host", "127.0.0.1", "--port", str(setting.port), "--log-level", "error"),
        *("--device", "cpu", "--attn-implementation", "sdpa", "--continuous-batching"),
        *("--cb-block-size", str(block), "--cb-num-blocks", str(KV_TOKENS // block)),
        *("--cb-max-batch-tokens", "512"),
    ], {"HF_HOME": str(setting.scratch), "CUDA_VISIBLE_DEVICES": ""}


def _llama_cpp(setting: Setting) -> tuple[list[str], Mapping[str, str]]:
    gguf = setting.scratch / "model.gguf"
    convert = [str(setting.python), str(HERE / "write_gguf.py"), str(setting.model), str(gguf)]
    try:
        subprocess.run(convert, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise PeerUnavailableError(f"no GGUF: {error.stderr.strip().splitlines()[-1]}") from error
    return [
        *(str(setting.python), "-m", "llama_cpp.server", "--model", str(gguf)),
        *("--host", "127.0.0.1", "--port", str(setting.port), "--verbose", "false"),
        *("--n_ctx", "4096", "--n_threads", "1", "--n_threads_batch", "1"),
        *("--logits_all", "false"),  # by default it computes the logits of all prompt tokens
        *("--interrupt_requests", "false"),  # by default a new request ends the one that is answered
        *("--cache", "true", "--cache_size", str(setting.kv_bytes)),
    ], {}


RADIXWAY = Engine("ours", _radixway)
ENGINES = (
    RADIXWAY,
    Engine("transformers", _transformers, ("transformers[serving]==5.23.0", "torch==2.13.0")),
    Engine(
        "llama.cpp",
        _llama_cpp,
        ("llama-cpp-python[server]==0.3.36", "gguf==0.19.0", "safetensors==0.8.0"),
        build_env={"CMAKE_ARGS": "-DGGML_NATIVE=ON"},
        body={"repeat_penalty": 1.0},
        note="answers one request at a time, and keeps keys and values in float16 (its default, and faster)",
    ),
)


@contextlib.contextmanager
def running(engine: Engine, model: Path, kv_bytes: int, at_once: int, peers_dir: Path) -> Iterator[Server]:
    """Install (if need be), start and finally stop a server. Raises `PeerUnavailableError`."""
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-bench-")))
        (port,) = free_ports(1)
        setting = Setting(_python(engine, peers_dir), model, kv_bytes, at_once, port, scratch)
        command, env = engine.command(setting)
        log = scratch / "log"
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stack.enter_context(log.open("wb")),
                stderr=subprocess.STDOUT,
                cwd=scratch,
                env=clean_environment({**ONE_THREAD, **env}),
                start_new_session=True,
            )
        except OSError as error:
            raise PeerUnavailableError(f"cannot be started: {error}") from error
        stack.callback(stop, process)
        url = f"http://127.0.0.1:{port}"
        _wait_until_it_listens(process, url, log)
        yield Server(engine, url, process.pid, str(model))


def _python(engine: Engine, peers_dir: Path) -> Path:
    """The interpreter that has the engine, which is installed on first use."""
    if not engine.requirements:
        return Path(sys.executable)
    options = ["--constraint", str(HERE.parent / "constraints.txt")]
    home = environment(peers_dir / engine.name, engine.requirements, options, engine.build_env)
    return home / "bin" / "python"


def _wait_until_it_listens(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Return once `/v1/models` is answered."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if process.poll() is not None:
            raise PeerUnavailableError(f"ended with {process.returncode} at start: {last_words(log)}")
        with contextlib.suppress(OSError), opener.open(f"{url}/v1/models", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.1)
    raise PeerUnavailableError(f"did not answer within {START_S:g} s: {last_words(log)}")
