"""POST /v1/completions."""

from typing import Any

from msgspec import UNSET, UnsetType

from radixway.core.http import BadBodyError
from radixway.engine.engine_request import RequestOutput, TokenLogprob
from radixway.engine.server.beam_search import search_beams
from radixway.engine.server.engine_service import EngineService, GenerationJob, split_prompts
from radixway.engine.server.http_exchange import HttpExchange
from radixway.engine.server.openai_fields import (
    SamplingBody,
    check_choices,
    check_named_logprobs,
    find_constraint,
)
from radixway.engine.server.openai_replies import (
    CompletionReply,
    ReplyHead,
    TextChoice,
    choose_reply_id,
    finish_reason_name,
    make_logprob_format,
    make_prompt_logprobs,
    make_text_logprobs,
    make_weight_metadata,
    send_replies,
    set_stop,
    sum_usage,
)
from radixway.engine.server.prompt_truncation import parse_truncation
from radixway.engine.server.sampling import (
    MAX_ANSWERS,
    TokenRules,
    broadcast_values,
    field_names,
    make_sampling_params,
)
from radixway.engine.server.unsupported_fields import unsupported_field_error
from radixway.engine.structured_output import StructuredOutputGrammar

_DEFAULT_MAX_TOKENS = 16  # OpenAI's


class TextCompletionBody(SamplingBody, kw_only=True):
    """The request."""

    prompt: str | list[str | int | list[int]] | None = None
    echo: bool | None = None
    suffix: str | None = None
    logprobs: int | None = None
    add_special_tokens: bool | None = None


async def completions(service: EngineService, exchange: HttpExchange, body: TextCompletionBody) -> None:
    """Continue one or more prompts, whole or streamed."""
    service.check_model(body.model)
    n = check_choices(body, service.check_logprobs)
    body.logprobs = service.check_logprobs("logprobs", body.logprobs)
    check_named_logprobs(body, logprobs=body.logprobs is not None)
    wanted = find_constraint(body)
    if body.suffix:
        raise unsupported_field_error("suffix")

    if body.prompt is None:
        message = "prompt: missing. Either prompt or prompt_embeds must be provided and non-empty."
        raise BadBodyError(message, param="prompt", code="missing_field")

    with field_names({}):
        given = split_prompts(body.prompt, param="prompt")
        if len(given) * n > MAX_ANSWERS:
            message = f"prompt: {len(given)} prompts times n={n} are more than {MAX_ANSWERS} answers"
            raise BadBodyError(message, param="prompt")
        default_id = body.request_id or exchange.request_id
        rids = broadcast_values("rid", body.rid, len(given), default_id)
        max_tokens = _DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens
        truncation = parse_truncation(service, body, max_tokens)
        if truncation is not None:
            given = [truncation.cut_text(each) if isinstance(each, str) else each for each in given]
        add_special_tokens = body.add_special_tokens is not False
        prompts = await service.encode_prompts(given, param="prompt", add_special_tokens=add_special_tokens)
        if truncation is not None:
            prompts = [truncation.cut_tokens(ids) for ids in prompts]
        echoes = _prompt_echoes(service, body, prompts) if body.echo else [""] * len(prompts)
        grammar = await service.compile_constraint(wanted)
        rules = TokenRules.parse_rules(service.tokenizer, body.allowed_token_ids, body.bad_words)
        jobs = [
            _make_job(service, rid, body, prompt, choice, grammar, rules)
            for rid, prompt in zip(rids, prompts, strict=True)
            for choice in range(n)
        ]
        head = ReplyHead(choose_reply_id("cmpl", body, exchange), "text_completion", service.names[0])
        replies = TextReplies(service, body, head, prompts, echoes, n)
        if body.use_beam_search:
            beams = await search_beams(service, exchange, body, jobs, n)
            await exchange.send_json(replies.make_completion(beams))
            return
        async with service.start_generations(
            exchange, jobs, body, extra_key=body.extra_key, client_ids=body.client_ids
        ) as answers:
            await send_replies(exchange, body, answers, replies, per_prompt=n)


def _make_job(
    service: EngineService,
    rid: str,
    body: TextCompletionBody,
    prompt: list[int],
    choice: int,
    grammar: StructuredOutputGrammar | None,
    rules: TokenRules,
) -> GenerationJob:
    params = make_sampling_params(
        body,
        service.defaults,
        max_tokens=service.limit_max_tokens(_DEFAULT_MAX_TOKENS, prompt)
        if body.max_tokens is None
        else body.max_tokens,
        logprobs=body.logprobs,
        logprob_ids=tuple(body.logprob_token_ids or ()),
        rules=rules,
        prompt_logprobs=_prompt_logprob_count(body) if choice == 0 or body.stream else None,
        choice=choice,
        grammar=grammar,
    )
    return GenerationJob(prompt, params, rid)


def _prompt_logprob_count(body: TextCompletionBody) -> int | None:
    """Return the number of alternatives wanted for prompt tokens; None without prompt log-probabilities."""
    wanted = [body.prompt_logprobs, body.logprobs if body.echo else None]
    return max((count for count in wanted if count is not None), default=None)


def _prompt_echoes(service: EngineService, body: TextCompletionBody, prompts: list[list[int]]) -> list[str]:
    texts = [body.prompt] if isinstance(body.prompt, str) else body.prompt or []
    if body.truncate_prompt_tokens is None and all(isinstance(text, str) for text in texts):
        return [text for text in texts if isinstance(text, str)]
    return [service.tokenizer.decode(ids, skip_special_tokens=False) for ids in prompts]


class TextReplies:
    """Makes replies of answers and of their parts; the prompt's echo and ids come with the first part."""

    def __init__(
        self,
        service: EngineService,
        body: TextCompletionBody,
        head: ReplyHead,
        prompts: list[list[int]],
        echoes: list[str],
        n: int,
    ) -> None:
        self.head = head
        self._tokenizer = service.tokenizer
        self._logprob_format = make_logprob_format(service.tokenizer, body)
        self._eos_token_ids = service.engine.model_info.eos_token_ids
        self._logprobs = body.logprobs
        self._prompt_logprobs = body.prompt_logprobs
        self._token_ids = bool(body.return_token_ids)
        self._prompts = prompts
        self._echoes = echoes
        self._n = n
        self._offsets: dict[int, int] = {}

    def make_completion(self, answers: list[RequestOutput]) -> CompletionReply:
        """The reply with each of `answers` as a choice."""
        for index, answer in enumerate(answers):
            answer.prompt_logprobs = answers[index - index % self._n].prompt_logprobs  # scored once for all n
        choices = [self._make_choice(index, answer) for index, answer in enumerate(answers)]
        reply = self.head.make_reply(choices)
        reply.usage = sum_usage(answers, self._n)
        reply.metadata = make_weight_metadata(answers[0])
        return reply

    def make_chunks(self, index: int, output: RequestOutput) -> list[CompletionReply]:
        """The chunk for one output; none if it adds nothing."""
        has_tokens = output.token_ids and (self._token_ids or self._logprobs is not None)
        has_echo = index not in self._offsets and self._echoes[index // self._n]
        if output.text or output.finish or has_tokens or has_echo:
            return [self.head.make_reply([self._make_choice(index, output, in_stream=True)])]
        return []

    def count_reasoning(self, index: int, output: RequestOutput) -> None:
        """Not counted: a prompt does not say where an answer reasons."""

    @property
    def reasoning_tokens(self) -> None:
        """Not counted either."""

    def _make_choice(self, index: int, part: RequestOutput, *, in_stream: bool = False) -> TextChoice:
        """The choice for a whole answer, or for the next part of a streamed one."""
        prompt = index // self._n
        first = index not in self._offsets
        missing = UNSET if in_stream else None
        scores: list[dict[str, Any] | None] | UnsetType | None = missing
        if self._prompt_logprobs is not None:
            scores = make_prompt_logprobs(self._tokenizer, part.prompt_logprobs, self._prompt_logprobs)
        choice = TextChoice(
            index=index,
            text=self._echoes[prompt] + part.text if first else part.text,
            logprobs=self._make_text_logprobs(index, part),
            finish_reason=finish_reason_name(part.finish),
            prompt_token_ids=self._prompts[prompt] if self._token_ids and first else missing,
            token_ids=part.token_ids if self._token_ids else missing,
            prompt_logprobs=scores,
        )
        set_stop(choice, part.finish, self._eos_token_ids)
        return choice

    def _make_text_logprobs(self, index: int, part: RequestOutput) -> dict[str, Any] | None:
        """Return the `logprobs` of a delta; the echoed prompt's come before the first."""
        first = index not in self._offsets
        offset = self._offsets.setdefault(index, 0)
        if self._logprobs is None:
            return None
        items: list[TokenLogprob | int] = list(part.logprobs)
        echo, ids = self._echoes[index // self._n], self._prompts[index // self._n]
        if first and echo:
            items = [ids[0], *part.prompt_logprobs, *items]
            token = self._tokenizer.piece(ids[0])
            offset = 0 if echo.startswith(token) else -len(token)  # a begin-of-sequence token is not shown
        read = [item if isinstance(item, int) else item.token_id for item in items]
        self._offsets[index] = offset + sum(len(self._tokenizer.piece(token_id)) for token_id in read)
        return make_text_logprobs(self._logprob_format, items, offset, self._logprobs)
