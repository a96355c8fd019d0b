"""Chat templates: messages and tools in, the prompt's text out, exactly as `transformers` renders them.

A template is Jinja shipped with the model. It runs in a sandbox and sees plain JSON values only.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn, TypeAlias

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

Message: TypeAlias = dict[str, Any]
"""One chat message as JSON: `role`, `content` (text or a list of parts), `tool_calls`, …"""

_CONTINUE_MARK = "CONTINUE_FINAL_MESSAGE_TAG "
REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")
_RESERVED = frozenset({"messages", "tools", "add_generation_prompt", "continue_final_message"})

# What running a template on a client's data may raise; each means "these messages do not fit this template".
_RENDER_ERRORS = (
    jinja2.TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


class TemplateError(ValueError):
    """These messages do not fit this template; the text may be shown to a client, `param` names the field."""

    def __init__(self, message: str, *, param: str = "messages", code: str = "template_error") -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class ChatTemplate:
    """A model's chat template, compiled once.

    `special_tokens` (`bos_token`, `eos_token`, …) are visible to the template under their names.
    Raises TemplateError when `source` is not valid Jinja.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str] | None = None) -> None:
        self.source = source
        self._special_tokens = dict(special_tokens or {})
        try:
            self._template = _ENVIRONMENT.from_string(source)
            self.reads_content_parts = _reads_content_parts(source)
        except (jinja2.TemplateError, RecursionError) as error:
            raise TemplateError(f"the chat template is not valid Jinja: {error}") from error

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt for `messages`; the template also sees `arguments` (`enable_thinking`, …).

        Content given as a list of text parts becomes one string (joined by newlines) unless the template
        walks over parts itself. With `continue_final_message` the prompt ends inside the last message.
        Raises TemplateError when the template refuses the messages or cannot cope with them.
        """
        if not messages:
            raise TemplateError("there are no messages to render")
        if continue_final_message and add_generation_prompt:
            raise TemplateError("continue_final_message and add_generation_prompt exclude each other")
        arguments = arguments or {}
        if taken := _RESERVED & arguments.keys():
            raise TemplateError(f"{min(taken)} is no template argument; give it at the request's top level")
        chat = [self._prepare(message) for message in messages]
        final_text = _mark_final_message(chat[-1]) if continue_final_message else ""
        variables = {
            "documents": None,
            **self._special_tokens,
            **arguments,
            "messages": chat,
            "tools": list(tools) if tools else None,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            text = self._template.render(variables)
        except _RENDER_ERRORS as error:
            why = str(error) or type(error).__name__
            raise TemplateError(f"the chat template refused the messages: {why}") from error
        return _cut_at_mark(text, final_text) if continue_final_message else text

    def _prepare(self, message: Message) -> Message:
        """Return a copy for templates: no null fields, flat content, reasoning under each name."""
        message = {name: value for name, value in message.items() if value is not None}
        if isinstance(parts := message.get("content"), list):
            message["content"] = (
                [dict(part) if isinstance(part, Mapping) else part for part in parts]
                if self.reads_content_parts
                else _join_text_parts(parts)
            )
        reasoning = next((message[name] for name in REASONING_FIELDS if name in message), None)
        if reasoning is not None:
            message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
        return message


def _join_text_parts(parts: list[Any]) -> str:
    texts = []
    for part in parts:
        text = part if isinstance(part, str) else part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            raise TemplateError("this model reads text only: every content part needs a text")
        texts.append(text)
    return "\n".join(texts)


def _mark_final_message(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, str):
        message["content"] = content + _CONTINUE_MARK
        return content
    for part in reversed(content if isinstance(content, list) else []):
        if isinstance(part, dict) and isinstance(text := part.get("text"), str):
            part["text"] = text + _CONTINUE_MARK
            return text
    raise TemplateError("continue_final_message needs a last message with text content")


def _cut_at_mark(text: str, final_text: str) -> str:
    at = text.rfind(_CONTINUE_MARK.strip())
    if at < 0 or final_text.strip() not in text:
        raise TemplateError("continue_final_message: the chat template changes or drops the last message")
    # A template that trims the message has eaten the mark's trailing space, and would eat the text's own.
    return text[:at] if text.startswith(_CONTINUE_MARK, at) else text[:at].rstrip()


def _reads_content_parts(source: str) -> bool:
    """Does the template loop over a message's content, and so take a list of parts?"""
    for loop in _ENVIRONMENT.parse(source).find_all(nodes.For):
        iterated = loop.iter
        while isinstance(iterated, nodes.Filter) and iterated.node is not None:
            iterated = iterated.node
        match iterated:
            case nodes.Getattr(attr="content") | nodes.Name(name="content"):
                return True
            case nodes.Getitem(arg=nodes.Const(value="content")):
                return True
    return False


class _Generation(Extension):
    """`{% generation %}…{% endgeneration %}` marks what the model wrote; rendering it renders its body."""

    tags = {"generation"}  # noqa: RUF012 - the name and type that Jinja's Extension asks for

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Namespace(jinja2.utils.Namespace):
    """`namespace()` without underscore names, which could reach Python's internals."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, args = args[0], args[1:]
        values = dict(*args, **kwargs)
        for name in values:
            _refuse_private(name)
        jinja2.utils.Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_private(name)
        super().__setitem__(name, value)


def _refuse_private(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a template may not set {name!r} on a namespace")


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(str(message))


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    environment.globals["namespace"] = _Namespace
    return environment


_ENVIRONMENT = _environment()
