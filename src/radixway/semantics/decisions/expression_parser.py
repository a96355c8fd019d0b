"""The expression language of policy rules: `keyword.k8s.matched && bert.confidence > 0.7`.

    or      = and ("||" and)*
    and     = not ("&&" not)*
    not     = "!" not | "(" or ")" | term [comparison constant] | "true" | "false"
    term    = kind "." (name ".")? attribute
    name    = a word with letters, digits, _ and -, or anything in quotes

Kinds are those of conditions, and the proposal's words `similarity` (embedding) and `bert` (domain). Nothing
is evaluated but this grammar.
"""

import re
from typing import NamedTuple, NoReturn, cast, get_args

from radixway.core.config import ConfigError
from radixway.semantics.decisions.conditions import (
    AllOf,
    AnyOf,
    Attribute,
    Comparison,
    ConditionNode,
    NotNode,
    SignalCompared,
    SignalMatched,
)
from radixway.semantics.signals.base import Value

_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?(?:\d+(?:\.\d+)?|\.\d+))(?![\w.])|(?P<quoted>'[^']*'|\"[^\"]*\")|(?P<word>[^\W\d][\w-]*|\d[\w-]*)"
    r"|(?P<sign>&&|\|\||==|!=|<=|>=|[<>!().]))"
)
_KIND_WORDS = (
    *("keyword", "regex", "similarity", "embedding", "bert", "domain"),
    *("language", "context", "complexity", "header", "jailbreak", "pii"),
)
_KIND_OF_WORD = {"similarity": "embedding", "bert": "domain"}
"""Of the others the kind is the word itself."""
_ATTRIBUTES: dict[str, Attribute] = {name: name for name in get_args(Attribute)}
_ATTRIBUTES |= {"category": "value", "code": "value", "tokens": "value"}
_COMPARISONS = frozenset(get_args(Comparison))
_DEEPEST = 64


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse_expression(text: str, where: str = "condition") -> ConditionNode:
    """Return the condition that an expression says.

    Raises:
        ConfigError: what is wrong, and at which character. `where` stands before it.
    """
    return _Parser(text, where).parse_whole()


class _Parser:
    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._tokens = list(self._read_tokens())
        self._next = 0
        self._depth = 0

    def parse_whole(self) -> ConditionNode:
        node = self._parse_or()
        if not self._peek_is("end"):
            self._raise_error("an operator (&&, ||) or the end is missing here")
        return node

    def _read_tokens(self) -> list[_Token]:
        tokens, at, text = [], 0, self._text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                raise self._make_error("this is no part of an expression", at)
            tokens.append(_Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)))
            at = found.end()
        return [*tokens, _Token("end", "", len(text))]

    def _parse_or(self) -> ConditionNode:
        nodes = [self._parse_and()]
        while self._accept("||"):
            nodes.append(self._parse_and())
        return nodes[0] if len(nodes) == 1 else AnyOf(tuple(nodes))

    def _parse_and(self) -> ConditionNode:
        nodes = [self._parse_unary()]
        while self._accept("&&"):
            nodes.append(self._parse_unary())
        return nodes[0] if len(nodes) == 1 else AllOf(tuple(nodes))

    def _parse_unary(self) -> ConditionNode:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._raise_error(f"this is nested more than {_DEEPEST} deep")
        if self._accept("!"):
            node: ConditionNode = NotNode(self._parse_unary())
        elif self._accept("("):
            node = self._parse_or()
            if not self._accept(")"):
                self._raise_error("a ) is missing here")
        else:
            node = self._parse_term()
        self._depth -= 1
        return node

    def _parse_term(self) -> ConditionNode:
        first = self._expect_word("a signal (keyword.NAME.matched)")
        if first in ("true", "false") and not self._peek_is("sign", "."):
            return AllOf(()) if first == "true" else AnyOf(())
        if first not in _KIND_WORDS:
            known = ", ".join(_KIND_WORDS)
            self._raise_error(f"there is no kind of signal {first!r}; there are {known}", back=1)
        parts = []
        while self._accept("."):
            parts.append(self._expect_word("a name"))
        if len(parts) > 1 and parts[-1] == "value" and parts[-2] == "category":  # bert.category.value
            parts.pop()
        if not 1 <= len(parts) <= 2:
            self._raise_error(f"a term is {first}.NAME.matched, .score or .confidence")
        attribute = _ATTRIBUTES.get(parts[-1])
        if attribute is None:
            known = ", ".join(_ATTRIBUTES)
            self._raise_error(f"a signal has no {parts[-1]!r}; it has {known}", back=1)
        name = parts[0] if len(parts) == 2 else ""
        return self._parse_comparison(_KIND_OF_WORD.get(first, first), name, attribute)

    def _parse_comparison(self, kind: str, name: str, attribute: Attribute) -> ConditionNode:
        token = self._tokens[self._next]
        if token.text not in _COMPARISONS:
            if attribute != "matched":
                self._raise_error(f"compare it: {attribute} > 0.7")
            return SignalMatched(kind, name)
        self._next += 1
        comparison = cast(Comparison, token.text)
        return SignalCompared(kind, name, attribute, comparison, self._parse_constant())

    def _parse_constant(self) -> Value:
        token = self._tokens[self._next]
        self._next += 1
        if token.kind == "number":
            return float(token.text)
        if token.kind == "quoted":
            return token.text[1:-1]
        if token.text not in ("true", "false"):
            self._raise_error("a number, a text in quotes, true or false is missing here", back=1)
        return token.text == "true"

    def _expect_word(self, wanted: str) -> str:
        token = self._tokens[self._next]
        if token.kind not in ("word", "quoted", "number"):
            self._raise_error(f"{wanted} is missing here")
        self._next += 1
        return token.text[1:-1] if token.kind == "quoted" else token.text

    def _peek_is(self, kind: str, text: str = "") -> bool:
        token = self._tokens[self._next]
        return token.kind == kind and token.text == text

    def _accept(self, sign: str) -> bool:
        if self._peek_is("sign", sign):
            self._next += 1
            return True
        return False

    def _raise_error(self, text: str, back: int = 0) -> NoReturn:
        raise self._make_error(text, self._tokens[self._next - back].at)

    def _make_error(self, text: str, at: int) -> ConfigError:
        return ConfigError(f"{self._where}: {text}: character {at + 1} of {self._text!r}")
