"""OpenAI's Responses: parsing of bodies, whole replies, and items as messages of chat completions.

reasoning, message, function_call, function_call    ─► one assistant message
function_call_output                                ─► a tool message
message of user, system, developer                  ─► itself
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from radixway.core.chat_images import find_image_url, make_image_part
from radixway.core.http import decode_open_struct
from radixway.core.protocols.answer import (
    AssistantTurn,
    FinishInfo,
    GeneratedAnswer,
    ReplyMetadata,
    join_content,
)
from radixway.core.protocols.base import EventWriter, OpenAIErrors, encode
from radixway.core.protocols.chat import reasoning_effort_arguments
from radixway.core.protocols.request import (
    Count,
    Message,
    NormalizedRequest,
    SamplingFields,
    Tool,
    build_function_tool,
    choose_tools,
    field_error,
    require_string,
    response_json_schema,
    shorten_value,
)
from radixway.core.protocols.responses_reply import ResponseObject, ResponsesEventWriter


class ResponsesBody(SamplingFields, kw_only=True):
    """The body of a request for a response."""

    input: str | list[Any] | None = None
    model: str | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    prompt: Any = None
    background: bool | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Count | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    include: list[str] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    metadata: dict[str, Any] | None = None
    truncation: str | None = None
    store: bool | None = None
    user: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class ResponsesAdapter(OpenAIErrors):
    """`POST …/v1/responses`."""

    name = "openai.responses"

    def __init__(self, *, stateful: bool = False, takes_images: bool = False) -> None:
        """`stateful`: the server stores responses and conversations. `takes_images`: models may see some."""
        self._takes_images = takes_images
        self._unsupported = ("prompt",) if stateful else ("background", "conversation", "prompt")

    def parse_request(self, raw: bytes) -> NormalizedRequest:
        """Parse a `raw` body; `instructions` become the first message. Raises BadBodyError (400).

        With `previous_response_id` the messages are only the new ones; the session has the others, without
        earlier `instructions`.
        """
        body, fields, extra = decode_open_struct(raw, ResponsesBody)
        for name in self._unsupported:
            if getattr(body, name):
                raise field_error(name, "is not supported", code="unsupported")
        if not body.input and body.previous_response_id is None and not body.conversation:
            raise field_error("input", "is missing or empty", code="missing_field")
        instructions = [{"role": "system", "content": body.instructions}] if body.instructions else []
        tools, tool_choice = choose_tools(body.tool_choice, convert_response_tools(body.tools))
        text_format = (body.text or {}).get("format")
        if not isinstance(text_format, dict | None):
            raise field_error("text.format", "must be an object")
        effort = (body.reasoning or {}).get("effort")
        if not isinstance(effort, str | None):
            raise field_error("reasoning.effort", "must be a string")
        return NormalizedRequest(
            model=body.model,
            messages=[
                *instructions,
                *convert_response_items(body.input or [], takes_images=self._takes_images),
            ],
            tools=tools,
            tool_choice=tool_choice,
            parallel_tool_calls=body.parallel_tool_calls is not False,
            sampling=body.sampling(
                max_tokens=body.max_output_tokens,
                stop=body.stop,
                json_schema=response_json_schema(text_format, "text.format"),
            ),
            stream=bool(body.stream),
            top_logprobs=asked_logprobs(fields),
            template_arguments=reasoning_effort_arguments(effort) | (body.chat_template_kwargs or {}),
            previous_response_id=body.previous_response_id,
            body=fields,
            extra=extra,
        )

    def encode_reply(
        self, ask: NormalizedRequest, head: ReplyMetadata, answer: GeneratedAnswer, ending: FinishInfo
    ) -> bytes:
        """Encode `answer` as a `response`."""
        return encode(ResponseObject(ask, head).finished(answer, ending))

    def create_event_writer(self, ask: NormalizedRequest, head: ReplyMetadata) -> EventWriter:
        """Create a writer of `response.created` … `response.completed`, or `…incomplete`, for `ask`."""
        return ResponsesEventWriter(ResponseObject(ask, head))


LOGPROBS = "message.output_text.logprobs"
"""The entry of `include` that asks for log-probabilities."""


def asked_logprobs(fields: Mapping[str, Any]) -> int | None:
    """Return how many alternatives of each token a request's `fields` ask for; None: no log-probabilities."""
    return (fields.get("top_logprobs") or 0) if LOGPROBS in (fields.get("include") or ()) else None


_TEXT_PARTS = ("input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text")


def convert_response_items(
    given: str | Sequence[Any], place: str = "input", *, takes_images: bool = False
) -> list[Message]:
    """`input` as messages. Raises BadBodyError (400) naming the item at fault, by its `place` in the body."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return list(_ItemConverter(given, place, takes_images=takes_images))


def convert_response_tools(given: Sequence[Any] | None) -> list[Tool] | None:
    """Convert `given`, Responses' flat tools, to those of chat completions. Raises BadBodyError (400)."""
    tools = []
    for index, tool in enumerate(given or ()):
        place = f"tools[{index}]"
        if not isinstance(tool, dict):
            raise field_error(place, f"must be an object, not {shorten_value(tool)}")
        if tool.get("type") != "function":
            why = f"{shorten_value(tool.get('type'))} is not supported: only functions, which the client runs"
            raise field_error(f"{place}.type", why, code="unsupported")
        function = {name: value for name, value in tool.items() if name != "type"}
        tools.append(build_function_tool(function, place, schema_at="parameters"))
    return tools or None


class _ItemConverter:
    """Converts items to turns, gathering what belongs to one assistant turn."""

    def __init__(self, items: Sequence[Any], place: str, *, takes_images: bool) -> None:
        self._items = items
        self._takes_images = takes_images
        self._place = place
        self._turn = AssistantTurn()
        self._before: str | None = None
        """Type of the item before, within an assistant turn."""

    def __iter__(self) -> Iterator[Message]:
        for index, item in enumerate(self._items):
            yield from self._convert_item(item, f"{self._place}[{index}]")
        yield from self._end_turn()

    def _convert_item(self, item: Any, place: str) -> Iterator[Message]:
        if not isinstance(item, dict):
            raise field_error(place, f"must be an object, not {shorten_value(item)}")
        kind = item.get("type", "message")
        match kind, item.get("role"):
            case ("message", "assistant") | ("reasoning", _):
                # A reply of ours thinks once, first, and has no two messages side by side.
                if self._before == "message" or (kind == "reasoning" and self._turn):
                    yield from self._end_turn()
                if kind == "reasoning":
                    self._turn.reasoning.append(_reasoning_text(item, place))
                else:
                    self._turn.content.append("".join(_part_texts(item.get("content"), f"{place}.content")))
                self._before = kind
            case "function_call", _:
                names = ("call_id", "name", "arguments")
                self._turn.add_tool_call(
                    *(require_string(item.get(name), f"{place}.{name}") for name in names)
                )
                self._before = kind
            case "function_call_output", _:
                yield from self._end_turn()
                output = self._convert_content(item.get("output"), f"{place}.output")
                call_id = require_string(item.get("call_id"), f"{place}.call_id")
                yield {"role": "tool", "tool_call_id": call_id, "content": output}
            case "message", ("user" | "system" | "developer") as role:
                yield from self._end_turn()
                yield {
                    "role": role,
                    "content": self._convert_content(item.get("content"), f"{place}.content"),
                }
            case "message", role:
                raise field_error(
                    f"{place}.role",
                    f"must be user, assistant, system or developer, not {shorten_value(role)}",
                )
            case _:
                raise field_error(
                    f"{place}.type", f"{shorten_value(kind)} is not supported", code="unsupported"
                )

    def _convert_content(self, content: Any, place: str) -> str | list[dict[str, Any]]:
        if not self._takes_images or not isinstance(content, list):
            return join_content(_part_texts(content, place))
        return join_content([_text_or_image(part, f"{place}[{at}]") for at, part in enumerate(content)])

    def _end_turn(self) -> Iterator[Message]:
        if self._before is not None:
            yield self._turn.to_message()
        self._turn, self._before = AssistantTurn(), None


def _reasoning_text(item: dict[str, Any], place: str) -> str:
    """Return the reasoning as text or as it was sealed; a summary alone is not what the model thought."""
    if item.get("content"):
        return "".join(_part_texts(item["content"], f"{place}.content"))
    try:
        return base64.b64decode(item.get("encrypted_content") or "", validate=True).decode()
    except (binascii.Error, ValueError, TypeError):
        return ""  # another server's


def _part_texts(content: Any, place: str) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        raise field_error(place, f"must be a string or a list of parts, not {shorten_value(content)}")
    return [_part_text(part, f"{place}[{index}]") for index, part in enumerate(content)]


def _text_or_image(part: Any, place: str) -> str | dict[str, Any]:
    if not isinstance(part, dict) or part.get("type") != "input_image":
        return _part_text(part, place)
    if (url := find_image_url(part)) is None:
        why = "must be an http(s): or data: URL: files are not kept here"
        raise field_error(f"{place}.image_url", why, code="unsupported_content")
    return make_image_part(url)


def _part_text(part: Any, place: str) -> str:
    if not isinstance(part, dict):
        raise field_error(place, f"must be an object, not {shorten_value(part)}")
    kind = part.get("type")
    if kind not in _TEXT_PARTS:
        raise field_error(
            f"{place}.type",
            f"{shorten_value(kind)} is not supported: only text is",
            code="unsupported_content",
        )
    name = "refusal" if kind == "refusal" else "text"
    return require_string(part.get(name), f"{place}.{name}")
