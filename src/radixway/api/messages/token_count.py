"""`/v1/messages/count_tokens`: by a worker that has it, else by the prompt of the chat completion."""

import msgspec

from radixway.api.messages.chat_translation import build_chat_request
from radixway.api.messages.dispatch import ADAPTER, may_pass
from radixway.api.native_surfaces import NativeSurfaces
from radixway.core.pipeline import GatewayError, ModelNotServedError, Pipeline, Reply, Request
from radixway.routing import PromptReader, RoutingRequest, WorkerRegistry
from radixway.routing.prompt_reader import PromptNeeds

_NEEDS = PromptNeeds(reads_blocks=True, reads_text=False, reads_session=False)
_EXACT = ("ids", "tokenizer", "worker")


class TokenCountDispatcher:
    """Counts the tokens of requests for Anthropic's messages."""

    def __init__(
        self, native: NativeSurfaces, pipeline: Pipeline, registry: WorkerRegistry, prompts: PromptReader
    ) -> None:
        """`prompts`: reads a prompt's tokens as routing does."""
        self._native = native
        self._pipeline = pipeline
        self._registry = registry
        self._prompts = prompts

    async def __call__(self, request: Request) -> Reply:
        """Return `{"input_tokens": …}`. Raises HttpError: 501 where nothing here knows the model's tokens."""
        if await may_pass(self._native, request):
            return await self._pipeline(request)
        request.journal.add("translated", to="openai.chat")
        inner = build_chat_request(request, ADAPTER.parse_count_request(request.raw))
        model, tenancy, workers = (
            request.model,
            request.caller.policy,
            self._registry.candidates(request.model),
        )
        if tenancy is not None:
            workers = tuple(each for each in workers if tenancy.may_use_worker(each.pools, each.models))
        if model is not None and (
            self._registry.definitely_lacks_model(model)
            or not (tenancy is None or tenancy.allows_model(model))
        ):
            raise ModelNotServedError(model)
        prompt = self._prompts.read_prompt(inner, _NEEDS, workers, tokens_matter=True)
        read = prompt if isinstance(prompt, RoutingRequest) else await prompt
        if read.source not in _EXACT:
            message = "no tokenizer of the model is at hand, and no worker counts for it (routing.tokenizers)"
            raise GatewayError(message, status=501, code="tokenizer_missing")
        body = msgspec.json.encode({"input_tokens": read.tokens})
        return Reply(200, [(b"content-type", b"application/json")], "radixway", body)
