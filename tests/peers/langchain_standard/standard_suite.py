"""LangChain's standard tests of a chat model, for `ChatOpenAI` with the gateway behind it.

Its classes are run as they come: the unit tests, and the integration tests through `/v1/chat/completions` and
through `/v1/responses`. What they let a provider say of itself says here what the tutored model cannot do: it
reads no images, audio or PDF, and its token counts have no kinds.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

PARAMETERS: dict[str, Any] = {
    "model": "tutored",
    "base_url": f"{os.environ['PEERS_GATEWAY']}/v1",
    "api_key": "unused",
    "temperature": 0,
    "max_retries": 0,
    "stream_usage": True,  # ChatOpenAI asks only OpenAI's own address for it unless told
}
FIXED_URL = "http://127.0.0.1:30000/v1"
"""Never asked: unit tests compare what they make of it with a snapshot, which a free port would change."""


class TestUnits(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return PARAMETERS | {"base_url": FIXED_URL}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        environment = {"OPENAI_API_KEY": "a-key", "OPENAI_API_BASE": FIXED_URL}
        expected = {"openai_api_key": "a-key", "openai_api_base": FIXED_URL}
        return environment, {"model": "tutored"}, expected


class TestCalls(ChatModelIntegrationTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return PARAMETERS

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return "tutored"

    @property
    def supports_model_override(self) -> bool:
        return True


class TestResponses(TestCalls):
    @property
    def chat_model_params(self) -> dict[str, Any]:
        return PARAMETERS | {"use_responses_api": True}


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_PROXY", raising=False)
