"""POST /generate_stream: Text Generation Inference's stream, an event for each token."""

from typing import Any, Literal

import msgspec

from radixway.core.http import BadBodyError, HttpError, ReshapedError
from radixway.core.http.server_sent_events import write_event
from radixway.core.protocols.request import field_error
from radixway.engine.engine_request import FinishReason, RequestOutput
from radixway.engine.grammar_compiler import OutputConstraint
from radixway.engine.server.engine_service import EngineService, GenerationJob
from radixway.engine.server.http_exchange import HttpExchange, encode
from radixway.engine.server.openai_fields import FieldConstraint, make_json_constraint
from radixway.engine.server.openai_replies import MIN_LOGPROB
from radixway.engine.server.sampling import (
    CommonSamplingFields,
    SamplingDefaults,
    field_names,
    make_sampling_params,
)
from radixway.engine.server.unsupported_fields import unsupported_field_error

_DEFAULT_MAX_TOKENS = 100  # TGI's


class TgiGrammar(msgspec.Struct):
    """The form of the answer."""

    type: Literal["json", "json_object", "json_schema", "regex"]
    value: Any


class TgiParameters(msgspec.Struct, kw_only=True):
    """`parameters`. Without any that draws, the likeliest token is taken."""

    max_new_tokens: int | None = None
    do_sample: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    typical_p: float | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: list[str] = []
    return_full_text: bool | None = None
    truncate: int | None = None
    watermark: bool = False
    best_of: int | None = None
    details: bool = False
    decoder_input_details: bool = False
    top_n_tokens: int | None = None
    grammar: TgiGrammar | None = None
    adapter_id: str | None = None


class TgiStreamBody(msgspec.Struct, kw_only=True):
    """The request."""

    inputs: str
    parameters: TgiParameters = msgspec.field(default_factory=TgiParameters)


_NAMES = {
    "prompt": "inputs",
    "max_tokens": "parameters.max_new_tokens",
    "logprobs": "parameters.top_n_tokens",
} | {
    name: f"parameters.{name}"
    for name in ("temperature", "top_k", "top_p", "repetition_penalty", "frequency_penalty", "seed", "stop")
}


async def generate_stream(service: EngineService, exchange: HttpExchange, body: TgiStreamBody) -> None:
    """Continue a prompt; each event is one token, and the last has the whole text and why it ended."""
    given = body.parameters
    _refuse_unsupported(given)
    given.top_n_tokens = service.check_logprobs("parameters.top_n_tokens", given.top_n_tokens)
    with field_names(_NAMES):
        (prompt,) = await service.encode_prompts([body.inputs], param="inputs")
        if given.truncate is not None:
            prompt = prompt[-given.truncate :]
        constraint = None if given.grammar is None else _constraint_of(given.grammar)
        grammar = await service.compile_constraint(constraint)
        draws = given.do_sample or (given.temperature, given.top_k, given.top_p) != (None, None, None)
        fields = CommonSamplingFields(
            temperature=given.temperature if draws else 0.0,
            top_k=given.top_k,
            top_p=given.top_p,
            repetition_penalty=given.repetition_penalty,
            frequency_penalty=given.frequency_penalty,
            seed=given.seed,
            stop=given.stop,
            include_stop=True,
        )
        params = make_sampling_params(
            fields,
            SamplingDefaults(),
            max_tokens=given.max_new_tokens or service.limit_max_tokens(_DEFAULT_MAX_TOKENS, prompt),
            logprobs=given.top_n_tokens or 0,
            grammar=grammar,
            place="parameters.",
        )
        job = GenerationJob(prompt, params, exchange.request_id)
        async with service.start_generations(exchange, [job]) as answers:
            exchange.encode_failure = lambda error: write_event(_error_body(error))
            events = _TokenEvents(service, body, job)
            await answers.stream_events(exchange, events.make_events, end=b"")


def shape_error(error: HttpError) -> HttpError:
    """Return `error` in TGI's form, with the status that it had and the field it names."""
    return ReshapedError(error, _error_body(error))


def _error_body(error: HttpError) -> bytes:
    kind = {429: "overloaded"}.get(error.status, "validation" if error.status < 500 else "generation")
    return encode({"error": error.client_message, "error_type": kind, "param": error.param})


def _refuse_unsupported(given: TgiParameters) -> None:
    """Raise BadBodyError (400) naming a parameter that cannot be followed."""
    for name in ("typical_p", "watermark", "adapter_id", "decoder_input_details"):
        if getattr(given, name):
            raise unsupported_field_error(f"parameters.{name}")
    if given.best_of not in (None, 1):
        raise unsupported_field_error("parameters.best_of", "in a stream")
    for name in ("max_new_tokens", "truncate"):
        if (value := getattr(given, name)) is not None and value < 1:
            raise BadBodyError(f"parameters.{name} must be at least 1", param=f"parameters.{name}")


def _constraint_of(grammar: TgiGrammar) -> FieldConstraint:
    field = "parameters.grammar.value"
    if grammar.type != "regex":
        value = grammar.value
        if grammar.type == "json_schema" and isinstance(value, dict):
            value = value.get("schema")
        return field, make_json_constraint(value, field)
    if not isinstance(grammar.value, str):
        raise field_error(field, "must be a string")
    return field, OutputConstraint("regex", grammar.value)


class _TokenEvents:
    """Makes the events of one answer."""

    def __init__(self, service: EngineService, body: TgiStreamBody, job: GenerationJob) -> None:
        self._tokenizer = service.tokenizer
        self._eos_token_ids = service.engine.model_info.eos_token_ids
        self._top = body.parameters.top_n_tokens
        self._details = body.parameters.details
        self._job = job
        self._text = body.inputs if body.parameters.return_full_text else ""
        self._count = 0

    def make_events(self, _: int, output: RequestOutput) -> bytes:
        """The events of the tokens of `output`; text that several made together is the last one's."""
        if output.finish is not None and output.finish.type == "abort":
            raise HttpError("the request was aborted", status=409, code="aborted")
        events = []
        self._text += output.text
        for at, item in enumerate(output.logprobs, start=1):
            self._count += 1
            is_last = at == len(output.logprobs)
            event: dict[str, Any] = {
                "index": self._count,
                "token": self._describe_token(item.token_id, item.logprob, output.text if is_last else ""),
                "generated_text": None,
                "details": None,
            }
            if self._top:
                event["top_tokens"] = [self._describe_token(each, p) for each, p in item.top]
            if is_last and output.finish is not None:
                event["generated_text"] = self._text
                event["details"] = self._describe_end(output, output.finish) if self._details else None
            events.append(write_event(encode(event)))
        return b"".join(events)

    def _describe_token(self, token_id: int, logprob: float, text: str | None = None) -> dict[str, Any]:
        special = token_id in self._tokenizer.special_ids
        if text is None or (special and not text):
            text = self._tokenizer.piece(token_id)
        return {"id": token_id, "text": text, "logprob": max(logprob, MIN_LOGPROB), "special": special}

    def _describe_end(self, output: RequestOutput, finish: FinishReason) -> dict[str, Any]:
        reason = "length" if finish.type == "length" else "stop_sequence"
        if finish.type == "stop" and (finish.matched is None or finish.matched in self._eos_token_ids):
            reason = "eos_token"
        return {
            "finish_reason": reason,
            "generated_tokens": output.completion_tokens,
            "seed": self._job.params.seed,
            "input_length": output.prompt_tokens,
        }
