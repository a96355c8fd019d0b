"""The texts of a request that a guard reads: each with its speaker and its place in the body."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from radixway.core.pipeline import BadRequest, GatewayError

Speaker = Literal["system", "user", "assistant", "tool", "document"]
"""Speaker of the text. `tool`: results of calls; `document`: what was fetched or uploaded."""

Place = tuple[str | int, ...]
"""Keys and indices from the body down to the text: `("messages", 2, "content")`."""


class TextTooLongError(GatewayError):
    """A request has more text than the guard reads, and nothing passes unread."""

    status = 413
    code = "text_too_long"


@dataclass(frozen=True, slots=True)
class TextPassage:
    """A text of a request."""

    text: str
    """Valid Unicode: U+FFFD in place of each lone surrogate."""
    speaker: Speaker
    place: Place
    is_key: bool = False
    """It is the key at `place`, which cannot be replaced."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", replace_surrogates(self.text))


@dataclass(slots=True)
class RequestTexts:
    """Texts of a request's body."""

    passages: list[TextPassage] = field(default_factory=list)
    """Passages in the order of the body."""
    unread: list[Place] = field(default_factory=list)
    """Places of what is not text: pictures, sounds, files, token ids."""
    max_characters: int | None = None
    """The limit for all passages together."""
    characters: int = 0

    def add_passage(self, passage: TextPassage) -> None:
        """Add `passage`. Raises TextTooLongError if that makes it too much to read."""
        self.check_size(len(passage.text), passage.place)
        if len(self.passages) >= MAX_PASSAGES:
            raise _too_long_error("texts", passage.place)
        self.characters += len(passage.text)
        self.passages.append(passage)

    def skip_value(self, place: Place) -> None:
        """Note that `place` holds no text. Raises TextTooLongError for too many of the kind."""
        if len(self.unread) >= MAX_PASSAGES:
            raise _too_long_error("pictures, files and lists of token ids", place)
        self.unread.append(place)

    def check_size(self, characters: int, place: Place) -> None:
        """Raise TextTooLongError if `characters` more, at `place`, are too many."""
        if self.max_characters is not None and self.characters + characters > self.max_characters:
            raise TextTooLongError(
                f"the guard reads at most {self.max_characters} characters of a request"
                " (guard.long_texts.max_characters), and this field goes beyond them",
                param=format_place(place[:1]),
            )


_TOP: Mapping[Speaker, str] = {
    "system": """
        system instructions tools functions response_format chat_template chat_template_kwargs tool_choice
        function_call sampling_params structured_outputs structural_tag guided_json guided_regex guided_choice
        guided_grammar json_schema grammar regex ebnf
    """,
    "document": "documents",
    "user": "messages prompt text input suffix",
    "assistant": "prediction",
}
TOP: Mapping[str, Speaker] = {name: speaker for speaker, names in _TOP.items() for name in names.split()}
"""The speaker in the fields of all protocols, where nobody is named. Any other field is the user's."""

_TEXTLESS = """
model user safety_identifier metadata stop stop_regex bad_words rid service_tier
request_id cache_salt extra_key prompt_cache_key prompt_cache_retention lora_path
session_id session_params conversation previous_response_id include truncation
modalities audio reasoning reasoning_effort verbosity stream_options logit_bias encoding_format
kv_transfer_params disaggregated_params ec_transfer_params bootstrap_host bootstrap_room
custom_logit_processor custom_params logits_processors priority mcp_servers betas
"""
TEXTLESS = frozenset(_TEXTLESS.split())
"""Top-level fields that workers obey and no model is shown."""

EARLIER = "previous_response_id"
"""The field by which a Response goes on from another one: only its session knows what was said before."""

_MEDIA_FIELDS = frozenset({"image_data", "video_data", "audio_data", "input_embeds", "prompt_embeds"})
_CONVERSATION = frozenset({"messages", "input", "system", "instructions", "prompt", "prediction"})
"""Fields that may hold pictures, and fields that only the worker reads. In all others templates write out
what there out what there is.
"""
ID_FIELDS = ("input_ids", "prompt")
"""Fields in which there may be token ids."""
_TEXT_FIELDS = frozenset({"text", "content", "arguments", "output", *_CONVERSATION})
MAX_PASSAGES = 50_000
"""Each costs some hundred bytes, and a pass of its own, however short it is."""
DEEPEST = 64
"""Keys and indices in a place. What nests deeper is read as JSON, so that places stay short."""
_DIGITS = 9
"""Digits from which a number may be personal."""
_MIN_ID = 10 ** (_DIGITS - 1)
_MEDIA_PARTS = "image_url video_url audio_url input_audio image audio video file_data"
_OTHER_MEDIA = frozenset(_MEDIA_PARTS.split())
_WITHOUT_TEXT = """
role type id call_id tool_call_id tool_use_id item_id status signature
cache_control media_type mime_type format detail file_id encrypted_content
$schema $ref strict required url
"""
_NO_TEXT = frozenset(_WITHOUT_TEXT.split())
"""Fields without text for the model."""
_OPAQUE = re.compile(r"(?!\d{9})[\w.:/+=-]*")
"""Their usual values. Anything else was put there to be read."""
_ROLES: Mapping[str, Speaker] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_TYPES: Mapping[str, Speaker] = {
    **dict.fromkeys(("function_call", "tool_use", "reasoning"), "assistant"),
    **dict.fromkeys(("function_call_output", "custom_tool_call_output", "tool_result"), "tool"),
    **dict.fromkeys(("document", "search_result", "file", "input_file"), "document"),
}
"""Speaker by type of item or content part."""


_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,40}")
_SURROGATES = re.compile("[\ud800-\udfff]")

_Items = Iterator[tuple[Any, Place, Speaker]]


def read_texts(body: Mapping[str, Any], *, max_characters: int | None = None) -> RequestTexts:
    """Read every text of `body`: a chat completion, completion, `/generate`, Anthropic's Message or Response.

    Parts of unknown type are read too. Without recursion, as clients choose how deep they nest.
    Raises BadRequest for what nests too deeply, TextTooLongError for more than `max_characters`.
    """
    texts = RequestTexts(max_characters=max_characters)
    if body.get(EARLIER):
        texts.skip_value((EARLIER,))
    waiting = [_top_fields(body, texts)]
    while waiting:
        try:
            value, place, speaker = next(waiting[-1])
        except StopIteration:
            waiting.pop()
            continue
        if len(place) >= DEEPEST and isinstance(value, dict | list):
            value = _encode_json(value)
        if isinstance(value, str):
            _add_text(texts, value, place, speaker)
        elif isinstance(value, list):
            kinds = set(map(type, value))
            if _holds_ids(value, kinds, place):
                texts.skip_value(place)
            if kinds != {int} or not may_hold_ids(place):  # what else is among ids is read, too
                waiting.append(_items(value, place, speaker))
        elif isinstance(value, dict):
            waiting.append(_fields(value, place, speaker, texts))
        elif isinstance(value, int | float) and len(place) > 1 and abs(value) >= _MIN_ID and value % 1 == 0:
            texts.add_passage(TextPassage(str(value), speaker, place))
    return texts


def format_place(place: Place) -> str:
    """Format `place`: `messages[2].content`. Keys that are not names become `…`: they may be private."""
    words = ""
    for part in place:
        if isinstance(part, int):
            words += f"[{part}]"
        else:
            name = part if _NAME.fullmatch(part) else "…"
            words += f".{name}" if words else name
    return words


def _add_text(texts: RequestTexts, text: str, place: Place, speaker: Speaker) -> None:
    if text.startswith("data:") and ";base64," in text[:200] and _may_be_media(place):
        texts.skip_value(place)
    elif text.strip() and not (place[0] in ("tools", "functions") and _NAME.fullmatch(text)):
        texts.check_size(len(text), place)
        texts.add_passage(TextPassage(unescape_json(text), speaker, place))


def _too_long_error(what: str, place: Place) -> TextTooLongError:
    message = f"the guard reads at most {MAX_PASSAGES} {what} of a request, and this field goes beyond them"
    return TextTooLongError(message, param=format_place(place[:1]))


def replace_surrogates(text: str) -> str:
    """Return `text` with U+FFFD for each lone surrogate: as many characters, and all can be encoded."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text


def _may_be_media(place: Place) -> bool:
    last = place[-1]
    return place[0] in _CONVERSATION and len(place) > 1 and isinstance(last, str) and last not in _TEXT_FIELDS


def _top_fields(body: Mapping[str, Any], texts: RequestTexts) -> _Items:
    for name, value in body.items():
        if name in _MEDIA_FIELDS and value is not None:
            texts.skip_value((name,))
        elif name not in TEXTLESS:
            yield value, (name,), TOP.get(name, "user")


def _items(value: list[Any], place: Place, speaker: Speaker) -> _Items:
    for at, each in enumerate(value):
        yield each, (*place, at), speaker


def _fields(value: dict[str, Any], place: Place, speaker: Speaker, texts: RequestTexts) -> _Items:
    kind = value.get("type")
    speaker = _ROLES.get(str(value.get("role")), speaker)
    speaker = _TYPES.get(kind, speaker) if isinstance(kind, str) else speaker
    talks = place[0] in _CONVERSATION
    for name, each in value.items():
        at = (*place, name)
        if not _NAME.fullmatch(name) and name.strip():
            texts.add_passage(TextPassage(name, speaker, at, is_key=True))
        if talks and (name in _OTHER_MEDIA or (name == "data" and kind == "base64")):
            texts.skip_value(at)
            if isinstance(each, dict) or (isinstance(each, str) and _is_written(each)):
                yield each, at, speaker
        elif talks and (name == "arguments" or (name == "input" and kind == "tool_use")):
            yield _as_json(each), at, speaker
        elif not _is_silent(name, each, place):
            yield each, at, speaker


def _is_silent(name: str, value: Any, place: Place) -> bool:
    """Return whether the field says nothing. But parameters may be called `id`, and templates write roles."""
    if place[0] == "sampling_params" and name in TEXTLESS:
        return True
    if name == "$schema":
        return isinstance(value, str) and len(value.split()) < 2
    if name not in _NO_TEXT or place[0] not in _CONVERSATION or isinstance(value, dict):
        return False
    return (
        not isinstance(value, str)
        or (name == "url" and not _is_written(value))
        or bool(_OPAQUE.fullmatch(value))
    )


def _is_written(value: str) -> bool:
    """Return whether `value` is text: neither an address nor data, which may come in long lines."""
    return any(len(word) < 40 for word in value.split()[:-1])


def _encode_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None


def _as_json(value: Any) -> Any:
    """Return an object as its JSON, in which a finding can be replaced wherever it stands."""
    if not isinstance(value, dict | list):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return value


def unescape_json(text: str) -> str:
    """Return `text` without the escapes that would hide what it says, if it is JSON, as results of calls."""
    if "\\u" not in text:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else text


def _holds_ids(value: list[Any], kinds: set[type], place: Place) -> bool:
    """Return whether token ids are among `value`, which is of these `kinds`."""
    if not may_hold_ids(place):
        return False
    if kinds & {int, float, bool}:
        return True
    is_prompts = place in (("prompt",), ("input",))  # of which each is in its own words
    return str in kinds and not is_prompts and any(as_token_id(each) is not None for each in value)


def may_hold_ids(place: Place) -> bool:
    """Return whether a list at `place` may hold token ids; in `input` those of embeddings, not messages."""
    if place[0] == "input":
        return len(place) == 1 or (len(place) == 2 and isinstance(place[1], int))
    return place[0] in ID_FIELDS


def as_token_id(value: Any) -> int | None:
    """Return the token id that engines read from `value`, which may be `5.0`, `"5"` or `true` for 1."""
    if isinstance(value, str):
        return int(value) if len(value) <= _DIGITS and value.isdecimal() else None
    return int(value) if isinstance(value, int | float) and value == value // 1 else None
