"""Counts of prompts' tokens: `/v1/messages/count_tokens`, and `/v1/responses/input_tokens`.

They are counted by a worker that has the path, else by the prompt of the chat completion: here, or by the
provider of a hosted model.
"""

from collections.abc import Callable, Mapping

import msgspec

from radixway.api.messages.chat_translation import build_chat_request
from radixway.api.messages.dispatch import may_pass
from radixway.api.native_surfaces import NativeSurfaces
from radixway.core.pipeline import GatewayError, ModelNotServedError, Pipeline, Reply, Request
from radixway.core.pipeline.endpoints import COUNT_CHAT_TOKENS
from radixway.core.protocols import NormalizedRequest
from radixway.core.protocols.request import field_error
from radixway.routing import PromptReader, RoutingRequest, WorkerRegistry
from radixway.routing.prompt_reader import PromptNeeds
from radixway.routing.transports.hosted.transport import may_serve

_NEEDS = PromptNeeds(reads_blocks=True, reads_text=False, reads_session=False)
_EXACT = ("ids", "tokenizer", "worker")


class PromptTokenCounter:
    """Counts the tokens of the prompts of chat completions."""

    def __init__(
        self, registry: WorkerRegistry, prompts: PromptReader, pipeline: Pipeline, fields: Mapping[str, str]
    ) -> None:
        """`prompts`: reads a prompt's tokens as routing does. `pipeline`: asks providers of hosted models.
        `fields`: what replies say beside the count."""
        self._registry = registry
        self._prompts = prompts
        self._pipeline = pipeline
        self._fields = fields

    async def __call__(self, request: Request) -> Reply:
        """Return `{"input_tokens": …}` for `request`, a chat completion.

        Raises HttpError: 501 where nothing here knows the model's tokens.
        """
        model, tenancy = request.model, request.caller.policy
        workers = self._registry.candidates(model)
        if tenancy is not None:
            workers = tuple(each for each in workers if tenancy.may_use_worker(each.pools, each.models))
        if model is not None and (
            self._registry.definitely_lacks_model(model)
            or not (tenancy is None or tenancy.allows_model(model))
        ):
            raise ModelNotServedError(model)
        prompt = self._prompts.read_prompt(request, _NEEDS, workers, tokens_matter=True)
        read = prompt if isinstance(prompt, RoutingRequest) else await prompt
        if read.source in _EXACT:
            return self._build_reply(read.tokens)
        if workers and all(
            each.hosted is not None and may_serve(each, COUNT_CHAT_TOKENS) for each in workers
        ):
            asked = request.copy(endpoint=COUNT_CHAT_TOKENS, path=COUNT_CHAT_TOKENS.path)
            reply = await self._pipeline(asked)
            if reply.status != 200:
                return reply
            return self._build_reply(msgspec.json.decode(reply.body)["input_tokens"])
        message = "no tokenizer of the model is at hand, and no worker counts for it (routing.tokenizers)"
        raise GatewayError(message, status=501, code="tokenizer_missing")

    def _build_reply(self, count: int) -> Reply:
        body = msgspec.json.encode({**self._fields, "input_tokens": count})
        return Reply(200, [(b"content-type", b"application/json")], "radixway", body)


class TokenCountDispatcher:
    """Has the tokens of a protocol's requests counted."""

    def __init__(
        self,
        native: NativeSurfaces,
        pipeline: Pipeline,
        counter: PromptTokenCounter,
        parse_request: Callable[[bytes], NormalizedRequest],
    ) -> None:
        """`pipeline`: passes requests on to workers. `parse_request`: reads a body of the protocol."""
        self._native = native
        self._pipeline = pipeline
        self._counter = counter
        self._parse_request = parse_request

    async def __call__(self, request: Request) -> Reply:
        """Return the count for `request`. Raises HttpError."""
        if await may_pass(self._native, request):
            return await self._pipeline(request)
        asked = self._parse_request(request.raw)
        if asked.previous_response_id is not None:
            why = "is kept by a worker that does not count: send the conversation so far as input"
            raise field_error("previous_response_id", why, code="unsupported")
        request.journal.add("translated", to="openai.chat")
        return await self._counter(build_chat_request(request, asked))
