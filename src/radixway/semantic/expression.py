"""The expression language of policy rules: `keyword.k8s.matched && bert.confidence > 0.7`.

    or      = and ("||" and)*
    and     = not ("&&" not)*
    not     = "!" not | "(" or ")" | term [comparison constant] | "true" | "false"
    term    = kind "." (name ".")? attribute
    name    = a word with letters, digits, _ and -, or anything in quotes

Kinds are those of conditions, and the proposal's words `similarity` (embedding) and `bert` (domain). Nothing
is evaluated but this grammar.
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn, cast, get_args

from radixway.config import ConfigError
from radixway.semantic.conditions import All, Any, Attribute, Compared, Comparison, Matched, Node, Not
from radixway.semantic.signals.base import Value

_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?(?:\d+(?:\.\d+)?|\.\d+))(?![\w.])|(?P<quoted>'[^']*'|\"[^\"]*\")|(?P<word>[^\W\d][\w-]*|\d[\w-]*)"
    r"|(?P<sign>&&|\|\||==|!=|<=|>=|[<>!().]))"
)
_KINDS = {
    "keyword": "keyword",
    "regex": "regex",
    "similarity": "embedding",
    "embedding": "embedding",
    "bert": "domain",
    "domain": "domain",
    "language": "language",
    "context": "context",
    "complexity": "complexity",
    "header": "header",
    "jailbreak": "jailbreak",
    "pii": "pii",
}
_ATTRIBUTES = {
    "matched": "matched",
    "score": "score",
    "confidence": "confidence",
    "value": "value",
    "entropy": "entropy",
    "category": "value",
    "code": "value",
    "tokens": "value",
}
"""By the words that expressions use."""
_COMPARISONS = frozenset(get_args(Comparison))
_DEEPEST = 64


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse(text: str, where: str = "condition") -> Node:
    """The condition that an expression says.

    Raises:
        ConfigError: what is wrong, and at which character. `where` stands before it.
    """
    return _Parser(text, where).whole()


class _Parser:
    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._tokens = list(self._read_tokens())
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._either()
        if not self._is("end"):
            self._fail("an operator (&&, ||) or the end is missing here")
        return node

    def _read_tokens(self) -> list[_Token]:
        tokens, at, text = [], 0, self._text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                raise self._error("this is no part of an expression", at)
            tokens.append(_Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)))
            at = found.end()
        return [*tokens, _Token("end", "", len(text))]

    def _either(self) -> Node:
        nodes = [self._both()]
        while self._take("||"):
            nodes.append(self._both())
        return nodes[0] if len(nodes) == 1 else Any(tuple(nodes))

    def _both(self) -> Node:
        nodes = [self._single()]
        while self._take("&&"):
            nodes.append(self._single())
        return nodes[0] if len(nodes) == 1 else All(tuple(nodes))

    def _single(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"this is nested more than {_DEEPEST} deep")
        if self._take("!"):
            node: Node = Not(self._single())
        elif self._take("("):
            node = self._either()
            if not self._take(")"):
                self._fail("a ) is missing here")
        else:
            node = self._term()
        self._depth -= 1
        return node

    def _term(self) -> Node:
        first = self._word("a signal (keyword.NAME.matched)")
        if first in ("true", "false") and not self._is("sign", "."):
            return All(()) if first == "true" else Any(())
        kind = _KINDS.get(first)
        if kind is None:
            self._fail(f"there is no kind of signal {first!r}; there are {', '.join(_KINDS)}", back=1)
        parts = []
        while self._take("."):
            parts.append(self._word("a name"))
        if len(parts) > 1 and parts[-1] == "value" and parts[-2] == "category":  # bert.category.value
            parts.pop()
        if not 1 <= len(parts) <= 2:
            self._fail(f"a term is {first}.NAME.matched, .score or .confidence")
        attribute = _ATTRIBUTES.get(parts[-1])
        if attribute is None:
            known = ", ".join(_ATTRIBUTES)
            self._fail(f"a signal has no {parts[-1]!r}; it has {known}", back=1)
        name = parts[0] if len(parts) == 2 else ""
        return self._compared(kind, name, cast(Attribute, attribute))

    def _compared(self, kind: str, name: str, attribute: Attribute) -> Node:
        token = self._tokens[self._next]
        if token.text not in _COMPARISONS:
            if attribute != "matched":
                self._fail(f"compare it: {attribute} > 0.7")
            return Matched(kind, name)
        self._next += 1
        comparison = cast(Comparison, token.text)
        return Compared(kind, name, attribute, comparison, self._constant())

    def _constant(self) -> Value:
        token = self._tokens[self._next]
        self._next += 1
        if token.kind == "number":
            return float(token.text)
        if token.kind == "quoted":
            return token.text[1:-1]
        if token.text not in ("true", "false"):
            self._fail("a number, a text in quotes, true or false is missing here", back=1)
        return token.text == "true"

    def _word(self, wanted: str) -> str:
        token = self._tokens[self._next]
        if token.kind not in ("word", "quoted", "number"):
            self._fail(f"{wanted} is missing here")
        self._next += 1
        return token.text[1:-1] if token.kind == "quoted" else token.text

    def _is(self, kind: str, text: str = "") -> bool:
        token = self._tokens[self._next]
        return token.kind == kind and token.text == text

    def _take(self, sign: str) -> bool:
        if self._is("sign", sign):
            self._next += 1
            return True
        return False

    def _fail(self, text: str, back: int = 0) -> NoReturn:
        raise self._error(text, self._tokens[self._next - back].at)

    def _error(self, text: str, at: int) -> ConfigError:
        return ConfigError(f"{self._where}: {text}: character {at + 1} of {self._text!r}")
