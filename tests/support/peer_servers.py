"""An engine with the tutored model and a gateway in front of it, as processes, for other projects' suites."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from support.engine_process import engine_process
from support.free_ports import find_port
from support.gateway_process import gateway_process
from support.tutored_model import MODEL, tutored_model

_READY_S = 60.0
SETTINGS = {"served_model_name": MODEL, "context_length": 8192, "kv_tokens": 131_072, "seed": 1}


@contextmanager
def tutored_engine(directory: Path, *, thinking: bool = False, **settings: Any) -> Iterator[str]:
    """The URL of an engine with `settings` in its configuration, which is written to `directory`.

    With `thinking` its chat template has the model think first.
    """
    model = {"model": str(tutored_model(thinking=thinking))}
    path = directory / "radixway.yaml"
    path.write_text(json.dumps({"engine": model | SETTINGS | settings}), encoding="utf-8")
    with engine_process("--config", str(path)) as (url, _):
        yield url


@contextmanager
def default_gateway(directory: Path, engine: str) -> Iterator[str]:
    """The URL of a gateway with its defaults, its data in `directory`, once `engine` answers through it."""
    tree = {"gateway": {"port": find_port()}, "workers": [{"url": engine}]}
    with gateway_process(directory, tree, home=directory / "home") as (url, _):
        deadline = time.monotonic() + _READY_S
        while httpx.get(f"{url}/ready").status_code != 200:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the gateway did not find {engine} ready within {_READY_S:.0f} s")
            time.sleep(0.05)
        yield url
