"""OpenAI's API, servers that speak it, and Azure's deployments of it: requests pass as they are."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UNSET

from radixway.core.config import HostedWorkerSettings
from radixway.core.pipeline import Request
from radixway.core.pipeline.endpoints import (
    CHAT_COMPLETIONS,
    COMPLETIONS,
    COUNT_RESPONSE_TOKENS,
    RESPONSES,
)
from radixway.core.pipeline.endpoints.media import IMAGE_GENERATIONS, SPEECH, TRANSCRIPTIONS, TRANSLATIONS
from radixway.core.pipeline.endpoints.pooling import EMBEDDINGS
from radixway.routing.transports.hosted.base import (
    Delta,
    Headers,
    ProviderApi,
    ProviderCall,
    ProviderRefusal,
    ReplyReader,
    decode_answer,
    read_count,
    read_retry_after,
)

_OF_ENGINES = """
top_k min_p repetition_penalty length_penalty min_tokens ignore_eos stop_token_ids regex ebnf thinking
chat_template_kwargs continue_final_message add_generation_prompt add_special_tokens skip_special_tokens
spaces_between include_stop_str_in_output return_token_ids prompt_logprobs separate_reasoning
stream_reasoning guided_json guided_regex guided_choice guided_grammar structured_outputs documents
mm_processor_kwargs
"""
_ENGINE_FIELDS = frozenset(_OF_ENGINES.split())
"""Fields of engines, which OpenAI refuses; requests for own models may have them."""
_OF_GATEWAYS = """
cache_salt extra_key priority rid kv_transfer_params session_id vllm_xargs bootstrap_host bootstrap_port
bootstrap_room data_parallel_rank lora_path
"""
_GATEWAY_FIELDS = frozenset(_OF_GATEWAYS.split())
"""Fields that are for own workers alone; the first is a secret."""
_MESSAGE_FIELDS = ("reasoning_content", "reasoning", "thinking_blocks")
"""What answers have beside OpenAI's fields, and clients send back; so they do empty `tool_calls`."""


class OpenAIApi(ProviderApi):
    """`POST /chat/completions` and its neighbours."""

    passed_paths = frozenset(
        endpoint.path
        for endpoint in (
            *(CHAT_COMPLETIONS, COMPLETIONS, EMBEDDINGS, RESPONSES, COUNT_RESPONSE_TOKENS),
            *(IMAGE_GENERATIONS, SPEECH, TRANSCRIPTIONS, TRANSLATIONS),
        )
    )
    converted_paths = frozenset()
    is_strict = True
    """It refuses fields that it does not know."""

    def build_call(
        self, request: Request, settings: HostedWorkerSettings, model: str, key: str | None
    ) -> ProviderCall:
        """Return the call for `request`, whose fields keep their bytes. Raises BadRequest."""
        changes: dict[str, Any] = {"model": model}
        if request.form is None:
            changes |= self._find_changes(request.body, request)
        request.edit(**changes)
        path = self._locate(request.path, settings, model)
        return ProviderCall(path, request.raw, self._headers(key), request.content_type)

    def create_reader(self) -> ReplyReader:
        return ChunkReader()

    def explain_error(self, status: int, body: bytes, headers: Headers) -> ProviderRefusal:
        """Read `{"error": {"message", "type", "param", "code"}}`, or what servers like it send."""
        answer = decode_answer(body)
        error = answer.get("error", answer) if isinstance(answer, dict) else None
        retry_after_s, refuses_key = read_retry_after(headers), status == 401
        if not isinstance(error, dict):
            text = error if isinstance(error, str) else f"the provider answered {status}"
            return ProviderRefusal(text, retry_after_s=retry_after_s, refuses_key=refuses_key)
        message = error.get("message", error.get("detail"))
        code = error.get("code")
        return ProviderRefusal(
            str(message or f"the provider answered {status}"),
            str(error.get("type") or "api_error"),
            None if code is None else str(code),
            error.get("param") if isinstance(error.get("param"), str) else None,
            retry_after_s,
            refuses_key,
        )

    def _headers(self, key: str | None) -> Headers:
        return [] if key is None else [(b"authorization", b"Bearer " + key.encode())]

    def _locate(self, path: str, settings: HostedWorkerSettings, model: str) -> str:
        return path.removeprefix("/v1")

    def _find_changes(self, body: Mapping[str, Any], request: Request) -> dict[str, Any]:
        """Return the fields to change: of `body` none that only own workers know."""
        dropped = _GATEWAY_FIELDS | _ENGINE_FIELDS if self.is_strict else _GATEWAY_FIELDS
        changes: dict[str, Any] = dict.fromkeys(dropped & body.keys(), UNSET)
        if request.endpoint is CHAT_COMPLETIONS and self.is_strict:
            if body.get("max_tokens") is not None:  # models that think refuse the older name
                changes["max_tokens"] = UNSET
                changes["max_completion_tokens"] = body.get("max_completion_tokens") or body["max_tokens"]
            messages = body.get("messages")
            if isinstance(messages, list):
                stripped = [_strip_message(message) for message in messages]
                if stripped != messages:
                    changes["messages"] = stripped
        if request.stream and request.endpoint in (CHAT_COMPLETIONS, COMPLETIONS):
            options = body.get("stream_options")
            changes["stream_options"] = {
                **(options if isinstance(options, dict) else {}),
                "include_usage": True,
            }
        return changes


class CompatibleApi(OpenAIApi):
    """A server of OpenAI's API: fields that OpenAI does not know may be its own, and few count tokens."""

    passed_paths = OpenAIApi.passed_paths - {COUNT_RESPONSE_TOKENS.path}
    is_strict = False


class AzureApi(OpenAIApi):
    """Azure OpenAI: a deployment's path, `api-version`, and the header `api-key`."""

    passed_paths = OpenAIApi.passed_paths - {COUNT_RESPONSE_TOKENS.path}

    def _headers(self, key: str | None) -> Headers:
        return [(b"api-key", (key or "").encode())]

    def _locate(self, path: str, settings: HostedWorkerSettings, model: str) -> str:
        route, _, query = path.removeprefix("/v1").partition("?")
        more = f"&{query}" if query else ""
        if route == "/responses":  # it has no deployment in its path: `model` names it
            return f"/openai{route}?api-version={settings.api_version}{more}"
        return f"/openai/deployments/{model}{route}?api-version={settings.api_version}{more}"


class ChunkReader(ReplyReader):
    """Reads the usage that chunks of OpenAI's streams tell; the chunks themselves pass as they are."""

    def read_reply(self, reply: Mapping[str, Any]) -> Iterator[Delta]:
        """Take the counts of `reply`, which tells them as a chunk does."""
        return self.read_event(reply)

    def read_event(self, event: Mapping[str, Any]) -> Iterator[Delta]:
        """Take the counts of `event`."""
        match event.get("usage"):
            case {"prompt_tokens": prompt, **usage}:
                self.prompt_tokens = read_count(prompt)
                self.completion_tokens = read_count(usage.get("completion_tokens"))
                match usage.get("prompt_tokens_details"):
                    case {"cached_tokens": cached}:
                        self.cached_tokens = read_count(cached)
        yield from ()


def _strip_message(message: Any) -> Any:
    """Return `message` without what OpenAI refuses, Google's signatures of calls among it."""
    if not isinstance(message, dict):
        return message
    kept = {name: value for name, value in message.items() if name not in _MESSAGE_FIELDS}
    calls = kept.pop("tool_calls", None)
    if isinstance(calls, list):
        calls = [
            {name: value for name, value in call.items() if name != "extra_content"}
            if isinstance(call, dict)
            else call
            for call in calls
        ]
    return kept | ({"tool_calls": calls} if calls else {})
