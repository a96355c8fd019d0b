"""Tools for models that cannot call functions: Thought, Action, Action Input, Observation, in plain text.

After Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models" (2022), in the words that the
published service's models were prompted with. Pure: texts in, texts out.
"""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from radixway.chat.plugins.plugin import ChatPlugin, PluginTool

STOP = "\nObservation:"
"""Stop string, before which the model stops for the tool's result."""
_ANSWER = re.compile(r"(?:^|\n)\s*(?:Open Assistant|Final Answer)\s*:[ \t]*", re.IGNORECASE)
_ACTION = re.compile(r"(?:^|\n)\s*Action\s*:[ \t]*([^\n]+)", re.IGNORECASE)
_INPUT = re.compile(r"(?:^|\n)\s*Action Input\s*:", re.IGNORECASE)
_THOUGHT = re.compile(r"(?:^|\n)\s*Thought\s*:[ \t]*([^\n]*)", re.IGNORECASE)
_END = re.compile(r"\s*End!\s*$")
_MIN_SIMILARITY = 0.75


@dataclass(frozen=True, slots=True)
class ReactAction:
    """A call that the model wants."""

    tool: str
    arguments: str
    thought: str


def build_instructions(plugin: ChatPlugin) -> str:
    """Return the system prompt that describes `plugin` and how to use it."""
    names = ", ".join(f"'{tool.name}'" for tool in plugin.tools)
    shown = "\n".join(_describe_tool(tool) for tool in plugin.tools)
    payload = any("payload" in tool.parameters.get("properties", {}) for tool in plugin.tools)
    form = (
        '{"request": {"params": {query or url parameters}' + (', "payload": {...}' if payload else "") + "}}"
    )
    return (
        f"TOOLS:\n-----\nYou have access to the following tools:\n{shown}\n\n"
        f"{plugin.name} plugin description:\n{plugin.description}\n\n"
        'ATTENTION: Do not use tools for questions about yourself, like "what is your name?".\n\n'
        "To use a tool, use the following format:\n```\n"
        "Thought: [here always think about what to do]\n"
        f"Action: the action to take, MUST be one of [{names}]\n"
        f"Action Input: the input to the action, MUST be in JSON format: {form}\n```\n"
        "You are then told the result, after the word Observation: (this can repeat).\n\n"
        "When you have a response, or if you do not need to use a tool, you MUST use the format:\n```\n"
        "Thought: I now know the final answer\n"
        "Open Assistant: [your response here]End!\n```"
    )


def _describe_tool(tool: PluginTool) -> str:
    required = tool.parameters.get("required", ())
    lines = [f"> {tool.name}: {tool.description}"]
    for name, schema in tool.parameters.get("properties", {}).items():
        text = schema.get("description") or json.dumps(schema)
        kind = schema.get("type", "any")
        lines.append(f"   {name} ({kind}{', required' if name in required else ''}): {text}")
    return "\n".join(lines)


def parse_action(text: str) -> ReactAction | None:
    """Return the first call in `text`, a model's output; None: it answers."""
    found = _ACTION.search(text)
    answer = _ANSWER.search(text)
    if found is None or (answer is not None and answer.start() < found.start()):
        return None
    given = _INPUT.search(text, found.end())
    rest = "" if given is None else text[given.end() :]
    thoughts = _THOUGHT.findall(text[: found.start()])
    thought = thoughts[-1] if thoughts else text[: found.start()]
    return ReactAction(found[1].strip().strip("`'\"[]"), rest.partition(STOP)[0].strip(), thought.strip())


def find_tool(name: str, tools: Sequence[PluginTool]) -> PluginTool | None:
    """Return the tool that `name` means: by name, by a part of it, or by similarity."""
    wanted = name.casefold()
    known = {tool.name.casefold(): tool for tool in tools}
    if wanted in known:
        return known[wanted]
    parts = [tool for key, tool in known.items() if wanted and (key in wanted or wanted in key)]
    if len(parts) == 1:
        return parts[0]
    near = difflib.get_close_matches(wanted, known, n=1, cutoff=_MIN_SIMILARITY)
    return known[near[0]] if near else None


def parse_arguments(text: str, tool: PluginTool) -> dict[str, Any]:
    """Return the arguments in `text`: the published `{"request": {"params", "payload"}}`, or just arguments.

    Text without JSON is the only parameter of a tool that has one. Raises ValueError, in words for the model.
    """
    start = text.find("{")
    if start < 0:
        names = list(tool.parameters.get("properties", {}))
        if len(names) != 1 or not text.strip():
            raise ValueError('the input must be JSON: {"request": {"params": {…}}}')
        return {names[0]: text.strip().strip("`'\"")}
    document = _parse_object(text[start:])
    request = document.get("request", document)
    if not isinstance(request, dict):
        raise ValueError("`request` must be an object")
    if not {"params", "payload"} & request.keys():
        return request
    params = request.get("params") or {}
    if not isinstance(params, dict):
        raise ValueError("`params` must be an object")
    payload = {} if request.get("payload") is None else {"payload": request["payload"]}
    return {**params, **payload}


def _parse_object(text: str) -> dict[str, Any]:
    for candidate in _iter_repairs(text):
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    raise ValueError('the input is not JSON; it must be like {"request": {"params": {…}}}')


def _iter_repairs(text: str) -> Iterable[str]:
    """Yield the text itself; with closed braces; with Python's quotes and words; without commas before
    braces."""
    text = text[:20_000]
    closed = text.rstrip("`\n ") + "}" * max(0, text.count("{") - text.count("}"))
    yield text
    yield closed
    tidy = re.sub(r",\s*([}\]])", r"\1", closed)
    yield tidy
    words = {"None": "null", "True": "true", "False": "false"}
    python = re.sub(r"\b(None|True|False)\b", lambda found: words[found[1]], tidy)
    yield python.replace("'", '"')


class ReactAnswerReader:
    """Passes on the text of an answer as soon as it is certain that it belongs to the answer."""

    def __init__(self) -> None:
        self.text = ""
        self._at: int | None = None
        self._shown_until = 0

    def feed(self, piece: str) -> str:
        """Take the next `piece` and return the text that can be shown now."""
        self.text += piece
        if self._at is None:
            answer = _ANSWER.search(self.text)
            if answer is None or parse_action(self.text[: answer.end()]) is not None:
                return ""
            self._at = self._shown_until = answer.end()
        if self._shown_until == self._at:  # blanks after the marker may arrive later
            rest = self.text[self._at :]
            self._at = self._shown_until = self._at + len(rest) - len(rest.lstrip(" \t"))
        sure = max(self._shown_until, len(self.text.rstrip()[: -len("End!")].rstrip()))
        shown, self._shown_until = self.text[self._shown_until : sure], sure
        return shown

    def flush(self) -> str:
        """Return the rest of the answer; all of it if no marker announced one."""
        if self._at is not None:
            return _END.sub("", self.text[self._shown_until :])
        text = _END.sub("", self.text)
        thought = _THOUGHT.match(text)
        rest = text[thought.end() :].strip() if thought is not None else text.strip()
        return rest or text.strip()
