"""Clients as the SDKs make them, told to refuse a reply that is not of the type which a call promises."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anthropic
import openai
import pytest


@pytest.fixture
async def client(gateway: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{gateway}/v1", api_key="unused", max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


@pytest.fixture
async def claude(gateway: str) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(
        base_url=gateway, api_key="unused", max_retries=0, _strict_response_validation=True
    ) as client:
        yield client
