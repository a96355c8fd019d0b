"""The service behind every endpoint: the engine, its tokenizer, the names and limits it is served under."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from radixway.core.config.engine import EngineConfig
from radixway.core.http import BadBodyError, HttpError
from radixway.core.parsers import ModelFamily
from radixway.core.protocols.request import field_error
from radixway.core.telemetry.tracing import RequestTracer
from radixway.core.tokenizer import Tokenizer
from radixway.engine.engine import Engine
from radixway.engine.errors import GrammarUnavailableError, InvalidGrammarError, InvalidRequestError
from radixway.engine.generation_stream import GenerationStream
from radixway.engine.grammar_compiler import CompiledGrammar, GrammarCompiler, OutputConstraint
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.server.generation_fields import (
    GenerationFields,
    check_priority,
    parse_rooms,
    prefix_namespace,
)
from radixway.engine.server.generation_group import GenerationGroup
from radixway.engine.server.http_exchange import HttpExchange
from radixway.engine.server.metrics import EngineGpuMonitor, ServerMetrics
from radixway.engine.server.openai_fields import FieldConstraint
from radixway.engine.server.sampling import SamplingDefaults

T = TypeVar("T")

DEFAULT_MODEL = "default"
"""SGLang clients' name of a single model."""
_MAX_INLINE_CHARACTERS = 8_192  # characters: tokenizing that many takes some 5 ms
_MAX_ID_CHARACTERS = 1_000  # every event of a stream carries the id
_NUM_TEXT_THREADS = 2  # a thread's work may take seconds of a core and, while it lasts, 200 bytes a character


@dataclass(slots=True, frozen=True)
class GenerationJob:
    """A generation to run."""

    prompt_ids: list[int]
    params: SamplingParams
    request_id: str
    """Id in its answer and for `abort_request`; several jobs may share one."""


@dataclass(slots=True)
class EngineService:
    """A served model."""

    engine: Engine
    tokenizer: Tokenizer
    config: EngineConfig
    names: tuple[str, ...]
    """Names clients may ask for, the first of which answers carry."""
    metrics: ServerMetrics
    defaults: SamplingDefaults
    tokenizer_path: str
    max_body_bytes: int
    started_at: int
    """Seconds since the epoch."""
    tracing: RequestTracer | None = None
    gpu: EngineGpuMonitor = field(init=False)
    draining: bool = False
    """No longer ready for new work, which a router in front should see."""
    grammars: GrammarCompiler = field(init=False)
    family: ModelFamily = field(init=False)
    """How the model calls tools and thinks, as far as is known."""
    longest_prompt: int = field(init=False)
    """Characters; a longer text does not fit the context, whatever its tokens."""
    _running: dict[str, set[str]] = field(default_factory=dict)
    """Generation ids by request."""
    _stepwise: dict[str, set[asyncio.Event]] = field(default_factory=dict)
    """By the ids of requests of several steps, what is set once they are aborted."""
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_NUM_TEXT_THREADS, "radixway-text")
    )

    def __post_init__(self) -> None:
        info = self.engine.model_info
        self.gpu = EngineGpuMonitor(info.device)
        self.grammars = GrammarCompiler(self.tokenizer, info.eos_token_ids, info.vocab_size)
        self.family = ModelFamily.detect_family(
            (template.source for template in self.tokenizer.chat_templates.values()),
            tools=self.config.tool_parser,
            thinking=self.config.reasoning_parser,
        )
        self.longest_prompt = info.context_length * self.tokenizer.longest_token

    def body_limit_bytes(self, path: str) -> int:
        """Bytes that the body of a request to `path` may have."""
        if path == "/update_weights_from_tensor":  # all of them in float32 and base64, and as much again
            return max(self.max_body_bytes, 12 * self.engine.model_info.parameters)
        return self.max_body_bytes

    def check_model(self, name: str | None) -> None:
        """Raises HttpError (404) for a model not served here; `default`, and no name, is the one that is.

        BadBodyError (400) for one with an adapter, as SGLang names it (`model:adapter`): none is loaded.
        """
        known = (*self.names, DEFAULT_MODEL)
        if not name or name in known:
            return
        base, _, adapter = name.partition(":")
        if adapter and base in known:
            message = f"the LoRA adapter {adapter!r} was asked for, but LoRA is not enabled in this engine"
            raise BadBodyError(message, param="model", code="unsupported")
        message = f"The model `{name}` does not exist. The served model name is `{self.names[0]}`"
        raise HttpError(message, status=404, param="model", code="model_not_found")

    def check_logprobs(self, name: str, count: int | None) -> int | None:
        """Return how many alternatives per token field `name` asks for; -1 stands for the whole vocabulary.

        Raises BadBodyError (400) for more than `max_logprobs` allows."""
        size, limit = self.engine.model_info.vocab_size, self.config.max_logprobs
        most = size if limit == -1 else min(limit, size)
        wanted = size if count == -1 else count
        if wanted is not None and not 0 <= wanted <= most:
            raise BadBodyError(f"{name} must be between 0 and {most}, not {count}", param=name)
        return wanted

    async def run_off_loop(self, work: Callable[[], T], *, characters: int) -> T:
        """Do `work` on a text of this size, in a thread when it would keep other requests waiting.

        Cancelled while all threads are busy, it is never done.
        """
        if characters <= _MAX_INLINE_CHARACTERS:
            return work()
        return await self.run_in_thread(work)

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread; not at all if cancelled while all threads are busy."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def compile_constraint(self, wanted: FieldConstraint | None) -> CompiledGrammar | None:
        """Compile `wanted`, as `find_constraint` returned it; None for None.

        Raises BadBodyError (400) naming the field when it cannot be used.
        """
        if wanted is None:
            return None
        field, constraint = wanted
        try:
            return await self.compile_grammar(constraint)
        except InvalidGrammarError as error:
            raise field_error(field, f"cannot be used: {error}", code="invalid_grammar") from None
        except GrammarUnavailableError as error:
            raise field_error(field, str(error), code="unsupported") from None

    async def compile_grammar(self, constraint: OutputConstraint) -> CompiledGrammar:
        """Compile `constraint`, unless it has been before. Raises InvalidGrammarError."""
        if (grammar := self.grammars.get_cached(constraint)) is not None:
            return grammar
        return await self.run_in_thread(lambda: self.grammars.compile_constraint(constraint))

    def check_length(self, text: str, param: str) -> None:
        """Raises BadBodyError (400) for a text that cannot fit the context, so that it need not be tokenized.

        A short one is let through: its tokens are soon counted, and the error then gives their number.
        """
        if len(text) > max(_MAX_INLINE_CHARACTERS, self.longest_prompt):
            limit = self.engine.model_info.context_length
            message = f"{param} has {len(text)} characters, which is longer than the model's context length"
            message += f" of {limit} tokens"
            raise BadBodyError(message, param=param, code="context_length_exceeded")

    def check_token_ids(self, ids: Sequence[int], param: str) -> None:
        """Raises BadBodyError (400) for an empty prompt or an id the model does not have, naming `param`."""
        if not ids:
            raise BadBodyError(f"{param} has no tokens", param=param, code="empty_prompt")
        size = self.engine.model_info.vocab_size
        if min(ids) < 0 or max(ids) >= size:
            wrong = next(i for i in ids if not 0 <= i < size)
            message = (
                f"{param} holds an out-of-vocabulary token: Token ID {wrong} is out of vocabulary, "
                f"the model has {size} tokens"
            )
            raise BadBodyError(message, param=param, code="invalid_token_id")

    async def encode_prompts(
        self,
        prompts: Sequence[str | list[int]],
        *,
        param: str,
        add_special_tokens: bool = True,
        must_fit: bool = True,
    ) -> list[list[int]]:
        """Encode each of `prompts` as token ids.

        Raises BadBodyError (400) for an empty prompt, an unknown id, or a text too long for the context
        unless it need not fit. Texts are tokenized one by one: if the client leaves, the rest never are.
        """
        names = [f"{param}[{index}]" if len(prompts) > 1 else param for index in range(len(prompts))]
        texts = {name: prompt for name, prompt in zip(names, prompts, strict=True) if isinstance(prompt, str)}
        if must_fit:
            for name, text in texts.items():
                self.check_length(text, name)
        characters = sum(map(len, texts.values()))
        all_ids = []
        for name, prompt in zip(names, prompts, strict=True):
            if isinstance(prompt, str):
                encode = partial(self.tokenizer.encode, prompt, add_special_tokens=add_special_tokens)
                prompt = await self.run_off_loop(encode, characters=characters)
            self.check_token_ids(prompt, name)
            all_ids.append(prompt)
        return all_ids

    def default_max_tokens(self, prompt_ids: Sequence[int]) -> int | None:
        """Most tokens of an answer that its request does not bound; None: as many as fit."""
        most = self.defaults.max_new_tokens
        return None if most is None else self.limit_max_tokens(most, prompt_ids)

    def limit_max_tokens(self, max_tokens: int, prompt_ids: Sequence[int]) -> int:
        """`max_tokens`, or what is left of the context after the prompt."""
        return min(max_tokens, max(1, self.engine.model_info.context_length - len(prompt_ids)))

    @asynccontextmanager
    async def start_generations(
        self,
        exchange: HttpExchange,
        jobs: Sequence[GenerationJob],
        body: GenerationFields | None = None,
        *,
        extra_key: str | None = None,
        aliases: Sequence[str] = (),
        client_ids: Sequence[str] = (),
        is_step: bool = False,
    ) -> AsyncIterator[GenerationGroup]:
        """Submit every job of `exchange`, with fields of its `body`; what still runs at the end is aborted.

        `abort_request` knows all of them by the exchange's id and by `aliases` as well. `client_ids` are ids
        that the client chose, which no other running request may have. `is_step`: the jobs are a step of one
        answer, whose times are not those of a request.

        Raises BadBodyError (400) naming the field at fault, InvalidRequestError, EngineQueueFullError or
        EngineStoppedError, and then nothing runs.
        """
        self._check_client_ids(client_ids)
        priority = check_priority(body.priority if body is not None else None)
        namespace = prefix_namespace(body.cache_salt, extra_key) if body is not None else ""
        capacity = self.config.max_running + self.config.max_queued
        if len(jobs) > capacity:  # waiting would not help
            message = f"{len(jobs)} answers are more than the {capacity} this engine takes"
            raise InvalidRequestError("prompt", message)
        is_paired = body is not None and self.config.disaggregation_mode != "null"
        rooms = parse_rooms(body, len(jobs)) if body is not None and is_paired else [None] * len(jobs)
        generations: list[GenerationStream] = []
        if exchange.traced is not None:
            exchange.traced.generations = generations
        arrived_at, first_token_s = exchange.arrived_at, self.metrics.first_token_s

        def observe_first_token() -> None:
            if not is_step:
                first_token_s.observe(time.perf_counter() - arrived_at)

        answers = GenerationGroup(generations, observe_first_token)
        names = {exchange.request_id, *aliases}
        try:
            for job, room in zip(jobs, rooms, strict=True):
                generation = self.engine.submit_request(
                    job.prompt_ids,
                    job.params,
                    request_id=f"{job.request_id}-{uuid.uuid4().hex[:12]}",
                    namespace=namespace,
                    priority=priority,
                    room=room,
                )
                generations.append(generation)
                for name in names | {job.request_id}:
                    self._running.setdefault(name, set()).add(generation.request_id)
            yield answers
            if not is_step:
                self.metrics.latency_s.observe(time.perf_counter() - arrived_at)
        finally:
            for job, generation in zip(jobs, generations, strict=False):
                # Before anything is awaited: that may be cancelled.
                self.engine.abort_request(generation.request_id)
                for name in names | {job.request_id}:
                    running = self._running[name]
                    running.discard(generation.request_id)
                    if not running:
                        del self._running[name]
            await answers.aclose()

    @contextmanager
    def hold_ids(self, ids: Set[str], client_ids: Sequence[str]) -> Iterator[asyncio.Event]:
        """Keep `ids` for a request of several steps, from its first to its last; yields the event that an
        abort of any of them sets. `client_ids` are as in `start_generations`.

        Raises BadBodyError (400) for a client's id that another request has."""
        self._check_client_ids(client_ids)
        aborted = asyncio.Event()
        for each in ids:
            self._stepwise.setdefault(each, set()).add(aborted)
        try:
            yield aborted
        finally:
            for each in ids:
                held = self._stepwise[each]
                held.discard(aborted)
                if not held:
                    del self._stepwise[each]

    def abort_request(self, request_id: str) -> int:
        """End every generation of request `request_id`; returns how many there were."""
        stepwise = self._stepwise.get(request_id, set())
        for aborted in stepwise:
            aborted.set()
        running = [self.engine.abort_request(each) for each in self._running.get(request_id, ())]
        return max(len(stepwise), sum(running))

    def abort_all_requests(self) -> int:
        """End every generation; how many there were."""
        for aborted in set().union(*self._stepwise.values()):
            aborted.set()
        return sum(map(self.engine.abort_request, set().union(*self._running.values())))

    def _check_client_ids(self, client_ids: Sequence[str]) -> None:
        for name in client_ids:
            in_use = name in self._running or name in self._stepwise
            if not name or in_use or client_ids.count(name) > 1:
                message = f"rid must name one running request at most, and {name[:100]!r} does not"
                raise BadBodyError(message, param="rid", code="duplicate_request_id")
            if len(name) > _MAX_ID_CHARACTERS:
                message = f"rid has {len(name)} characters; at most {_MAX_ID_CHARACTERS} are taken"
                raise BadBodyError(message, param="rid")


def split_prompts(given: str | Sequence[str | int | list[int]], *, param: str) -> Sequence[str | list[int]]:
    """Split `given` into prompts. Raises BadBodyError (400), naming `param`, for none or for mixed kinds."""
    if isinstance(given, str):
        return [given]
    if not given:
        raise BadBodyError(f"{param} is empty", param=param, code="empty_prompt")
    ids = [item for item in given if isinstance(item, int)]
    if len(ids) == len(given):
        return [ids]
    texts = [item for item in given if isinstance(item, str)]
    lists = [item for item in given if isinstance(item, list)]
    if max(len(texts), len(lists)) < len(given):
        message = f"{param} mixes texts, token ids and lists of token ids"
        raise BadBodyError(message, param=param, code="invalid_type")
    return texts or lists
