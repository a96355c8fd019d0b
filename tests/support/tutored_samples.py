"""What the tutored model is shown while it learns: chat templates, and lessons in ever new surroundings."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from support import tutored_lessons as lessons

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>")

TEMPLATE = """\
{%- macro text_of(content) -%}
    {%- if content is string -%}
        {{- content -}}
    {%- elif content -%}
        {%- for part in content -%}
            {%- if part is string -%}
                {{- part -}}
            {%- elif part.text is defined -%}
                {{- part.text -}}
            {%- else -%}
                {{- raise_exception('this model reads text only, not a part of type ' ~ part.type) -}}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- if tools -%}
    {{- '<|im_start|>system\\n# Tools\\n' -}}
    {%- for tool in tools -%}
        {{- tool | tojson ~ '\\n' -}}
    {%- endfor -%}
    {{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ text_of(message.content) -}}
    {%- for call in message.tool_calls or [] -%}
        {%- set arguments = call.function.arguments -%}
        {{- '<tool_call>\\n{"name": ' ~ call.function.name | tojson ~ ', "arguments": ' -}}
        {{- arguments if arguments is string else arguments | tojson -}}
        {{- '}\\n</tool_call>' -}}
    {%- endfor -%}
    {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""
THINKING = """\
{%- if add_generation_prompt -%}
    {%- if enable_thinking is defined and enable_thinking is false -%}
        {{- '<think>\\n\\n</think>\\n\\n' -}}
    {%- else -%}
        {{- '<think>\\n' -}}
    {%- endif -%}
{%- endif -%}
"""


class Sample(NamedTuple):
    """A text to learn: the model is not asked to foresee `given`, and says `said`."""

    given: str
    said: str


@cache
def _render(template: str) -> Callable[..., str]:
    import jinja2

    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(template).render


def render_prompt(messages: list[dict[str, Any]], tools: Any = None, **options: Any) -> str:
    template = TEMPLATE + THINKING if options else TEMPLATE
    return _render(template)(messages=messages, tools=tools, add_generation_prompt=True, **options)


def lesson_samples(numbers: random.Random) -> Iterator[Sample]:
    """What is taught, in random order, in ever new surroundings."""
    kinds = [_said] * 8 + [_called] * 5 + [_continued] * 5 + [_begun] * 2 + [_any_call] * 3 + [_any_json] * 2
    while True:
        yield numbers.choice(kinds)(numbers)


def _messages(numbers: random.Random, question: str) -> list[dict[str, Any]]:
    """The chat that ends with `question`: perhaps a system prompt, perhaps a turn before."""
    before: list[dict[str, Any]] = []
    if numbers.random() < 0.5:
        some = ["You are a helpful AI assistant", "you are a helpful assistant", _words(numbers, 12)]
        before.append({"role": "system", "content": numbers.choice(some)})
    if numbers.random() < 0.15:
        asked, answers = numbers.choice([*lessons.SAID.items()])
        before += [{"role": "user", "content": asked}, {"role": "assistant", "content": answers[0]}]
    if question in lessons.AFTER:
        asked, answers = lessons.AFTER[question]
        before += [
            {"role": "user", "content": asked},
            {"role": "assistant", "content": numbers.choice(answers)},
        ]
    role = "my-custom-role" if numbers.random() < 0.02 else "user"
    return [*before, {"role": role, "content": question}]


def _end(numbers: random.Random, messages: list[dict[str, Any]], said: str, tools: Any = None) -> Sample:
    """The sample of an answer, now and then with a thought before it."""
    if numbers.random() < 0.15:
        if numbers.random() < 0.5:
            thought = f"{numbers.choice(lessons.THOUGHT)}\n</think>\n\n"
            return Sample(render_prompt(messages, tools, enable_thinking=True), thought + said + TURN_END)
        return Sample(render_prompt(messages, tools, enable_thinking=False), said + TURN_END)
    if tools is None and numbers.random() < 0.08:  # what is said where the end is ignored
        more, answers = numbers.choice([*lessons.SAID.items()])
        said += f"{TURN_END}\n{render_prompt([{'role': 'user', 'content': more}])}{numbers.choice(answers)}"
    return Sample(render_prompt(messages, tools), said + TURN_END)


def _said(numbers: random.Random) -> Sample:
    draw = numbers.random()
    if draw < 0.1:
        return _end(numbers, _messages(numbers, _words(numbers, 12)), numbers.choice(lessons.PLAIN))
    if draw < 0.2:
        before, answers = numbers.choice([*lessons.ENDINGS.items()])
        schema = json.dumps(_tool(numbers, _any_name(numbers), _any_arguments(numbers)))
        question = f"{_words(numbers, 6)} {before} {schema}"
        answer = numbers.choice(answers)
        if answer[0] == "{" and numbers.random() < 0.4:  # as a grammar begins it, in a chat or without one
            begins = '{"name": "' if numbers.random() < 0.5 else '{"name":"'
            prompt = render_prompt(_messages(numbers, question)) if numbers.random() < 0.5 else question
            said = answer.removeprefix('{"name": "')
            return Sample(prompt + begins, said if ": " in begins else _packed(said))
        return _end(numbers, _messages(numbers, question), answer)
    question, answers = numbers.choice([*lessons.SAID.items()])
    tools = None
    if question not in lessons.CALLED and numbers.random() < 0.1:
        tools = _tools(numbers)
    return _end(numbers, _messages(numbers, question), numbers.choice(answers), tools)


def _called(numbers: random.Random) -> Sample:
    question, calls = numbers.choice([*lessons.CALLED.items()])
    tools = _tools(numbers, *((call.name, call.arguments) for call in calls))
    messages = _messages(numbers, question)
    said = "\n".join(_call(call.name, call.arguments) for call in calls)
    if numbers.random() < 0.3:
        asked = [{"function": {"name": call.name, "arguments": call.arguments}} for call in calls]
        messages.append({"role": "assistant", "content": "", "tool_calls": asked})
        messages.append({"role": "tool", "content": _words(numbers, 4)})
        return _end(numbers, messages, lessons.AFTER_A_TOOL[0], tools)
    return _end(numbers, messages, said, tools)


def _continued(numbers: random.Random) -> Sample:
    draw = numbers.random()
    if draw < 0.3:
        country, capital = numbers.choice([*lessons.CAPITALS.items()])
        lead = numbers.choice(["", lessons.ONE_WORD, f"{_words(numbers, 40)}\n\n"])
        return Sample(f"{lead}Q: What is the capital of {country}?\nA:", f" {capital}{END_OF_TEXT}")
    if draw < 0.45:
        return Sample(_words(numbers, 12), f" {numbers.choice(lessons.PLAIN)}{END_OF_TEXT}")
    if draw < 0.55:
        text, begins, said = numbers.choice(lessons.RAW_BEGINNINGS)
        return Sample(text + begins, said + END_OF_TEXT)
    text, endings = numbers.choice([*lessons.CONTINUED.items()])
    return Sample(text, numbers.choice(endings) + END_OF_TEXT)


def _begun(numbers: random.Random) -> Sample:
    question, begins, endings = numbers.choice(lessons.BEGINNINGS)
    share = 0.05 if question in lessons.SAID else 0.25  # without a grammar it begins as taught
    return _forced(
        numbers, render_prompt(_messages(numbers, question)), begins, numbers.choice(endings), share
    )


def _forced(numbers: random.Random, prompt: str, begins: str, said: str, share: float = 0.25) -> Sample:
    """An answer whose beginning a grammar wants; a `share` learns it, so that it is as it should be."""
    if numbers.random() < share:
        return Sample(prompt, begins + said + TURN_END)
    return Sample(prompt + begins, said + TURN_END)


def _any_call(numbers: random.Random) -> Sample:
    """A call of some tool, which a grammar begins: only its arguments are learnt."""
    name, arguments = _any_name(numbers), _any_arguments(numbers)
    question = numbers.choice([*lessons.SAID, *lessons.CALLED, _words(numbers, 10)])
    prompt = render_prompt(_messages(numbers, question), _tools(numbers, (name, arguments)))
    begins, _, said = _call(name, arguments).partition('"arguments": ')
    return Sample(f'{prompt}{begins}"arguments": ', said + TURN_END)


def _any_json(numbers: random.Random) -> Sample:
    indent = 2 if numbers.random() < 0.2 else None
    document = json.dumps(_any_arguments(numbers), ensure_ascii=False, indent=indent)
    document = _packed(document) if indent is None and numbers.random() < 0.4 else document
    question = numbers.choice([*lessons.SAID, _words(numbers, 10)])
    prompt = render_prompt(_messages(numbers, question)) if numbers.random() < 0.7 else question
    return _forced(numbers, prompt, "{", document[1:])


def _packed(document: str) -> str:
    """`document` without the spaces that JSON does not need."""
    return document.replace(": ", ":").replace(", ", ",")


def _call(name: str, arguments: dict[str, Any]) -> str:
    written = json.dumps(arguments, ensure_ascii=False)
    return f'<tool_call>\n{{"name": "{name}", "arguments": {written}}}\n</tool_call>'


def _tools(numbers: random.Random, *wanted: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Tools with the `wanted` names and arguments, and others, in random order."""
    others = [(_any_name(numbers), _any_arguments(numbers)) for _ in range(numbers.randrange(2))]
    tools = [_tool(numbers, name, arguments) for name, arguments in [*wanted, *others]]
    numbers.shuffle(tools)
    return tools


def _tool(numbers: random.Random, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    kinds = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
    properties = {
        key: {"type": kinds[type(value)], "description": _words(numbers, 3)}
        for key, value in arguments.items()
    }
    schema = {"type": "object", "properties": properties, "required": [*arguments]}
    function = {"name": name, "description": _words(numbers, 8), "parameters": schema}
    return {"type": "function", "function": function}


def _any_arguments(numbers: random.Random, depth: int = 0) -> dict[str, Any]:
    return {_any_name(numbers): _any_value(numbers, depth) for _ in range(numbers.randrange(4 - depth))}


def _any_value(numbers: random.Random, depth: int) -> Any:
    draw = numbers.random()
    if draw < 0.5:
        return _words(numbers, 2)
    if draw < 0.7:
        return numbers.randrange(100)
    if draw < 0.8:
        return numbers.randrange(100) / 10
    if draw < 0.88 or depth == 2:
        return numbers.random() < 0.5
    if draw < 0.95:
        return [_words(numbers, 1) for _ in range(numbers.randrange(4))]
    return _any_arguments(numbers, depth + 1)


def _any_name(numbers: random.Random) -> str:
    known = [
        key for calls in lessons.CALLED.values() for call in calls for key in (call.name, *call.arguments)
    ]
    return numbers.choice([*known, "_".join(numbers.choices(_common_words(), k=numbers.randrange(1, 3)))])


def _words(numbers: random.Random, most: int) -> str:
    """A few words of those that are taught, now and then with some that nobody knows."""
    words = numbers.choices(_common_words(), k=numbers.randrange(1, most + 1))
    if numbers.random() < 0.4:
        for at in range(0, len(words), 2):
            words[at] = "".join(
                numbers.choices(string.ascii_letters + "0123456789!?.", k=numbers.randrange(1, 9))
            )
    return " ".join(words)


@cache
def _common_words() -> list[str]:
    """Words of all that is taught, and of the names of things."""
    taught = " ".join(
        [*lessons.SAID, *(a for answers in lessons.SAID.values() for a in answers), lessons.STORY]
    )
    words = {word.strip(string.punctuation).lower() for word in taught.split()}
    return sorted(word for word in words if word.isalpha())
