"""Servers that the ported suites ask, each in a process of its own, and what a report says of a case."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from support.peer_servers import default_gateway, tutored_engine
from support.ported_cases import original_of
from support.tutored_model import tutored_model

StartEngine = Callable[..., str]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ported(source, case): the original of a ported case")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            original = original_of(item)
            item.add_marker(pytest.mark.slow)
            item.user_properties.append(("original", original))
            if (reason := _failures(item.path.parent).get(original)) is not None:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=False))


@cache
def _failures(suite: Path) -> dict[str, str]:
    """Cases of `suite` that fail today, and why."""
    return tomllib.loads((suite / "suite.toml").read_text(encoding="utf-8")).get("fails", {})


@pytest.fixture(scope="session")
def start_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartEngine]:
    """Start a `tutored_engine` with the given settings; asked for the same again, it gives the same one."""
    urls: dict[str, str] = {}
    with ExitStack() as running:

        def start(**settings: Any) -> str:
            key = json.dumps(settings, sort_keys=True)
            if key not in urls:
                directory = tmp_path_factory.mktemp("engine")
                urls[key] = running.enter_context(tutored_engine(directory, **settings))
            return urls[key]

        yield start


@pytest.fixture(scope="session")
def engine(start_engine: StartEngine) -> str:
    """The URL of an engine that serves the tutored model as `tutored`."""
    return start_engine()


@pytest.fixture(scope="session")
def gateway(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gateway with its defaults in front of `engine`."""
    with default_gateway(tmp_path_factory.mktemp("gateway"), engine) as url:
        yield url


@pytest.fixture
async def client(engine: str):
    """OpenAI's client of the engine, that tries nothing twice."""
    async with openai.AsyncOpenAI(base_url=f"{engine}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture
async def http(engine: str):
    """Plain HTTP to the engine."""
    async with httpx.AsyncClient(base_url=engine, timeout=120) as client:
        yield client


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """The model's tokenizer as `transformers` reads it."""
    import transformers

    return transformers.AutoTokenizer.from_pretrained(tutored_model())
