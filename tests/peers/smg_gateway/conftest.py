"""Clients of the gateway that the cases of SMG ask."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import httpx
import openai
import pytest


@pytest.fixture(scope="session")
def api(gateway: str) -> Iterator[openai.OpenAI]:
    """OpenAI's client of the gateway, that tries nothing twice."""
    with openai.OpenAI(base_url=f"{gateway}/v1", api_key="not-used", max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def claude(gateway: str) -> Iterator[anthropic.Anthropic]:
    """Anthropic's client of the gateway, that tries nothing twice."""
    with anthropic.Anthropic(base_url=gateway, api_key="not-used", max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def wire(gateway: str) -> Iterator[httpx.Client]:
    """Plain HTTP to the gateway."""
    with httpx.Client(base_url=gateway, timeout=120) as client:
        yield client
