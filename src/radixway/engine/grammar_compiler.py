"""Constraints on an answer: JSON schema, regular expression, choice or grammar, through `llguidance`.

A constraint is compiled once into a `CompiledGrammar`; each request gets a matcher of its own from it:

    Constraint ─ Grammars.compile ─► Grammar ─ matcher() ─► allowed ► (sample) ► accept ► allowed ► …

Compiling takes milliseconds to a second of a core and lets other threads run; the first compilation also
reads the whole vocabulary. What would take much longer is refused.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from radixway.core.tokenizer import Tokenizer
from radixway.engine.errors import GrammarStateError, GrammarUnavailableError, InvalidGrammarError

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

ConstraintKind = Literal["json_schema", "regex", "choice", "grammar", "lark"]

WHITESPACE = r"( |\n[ \t]{0,40})?"
"""Whitespace between the parts of a JSON document: a space or a line's indent. Small models would repeat
more."""

MAX_SOURCE_CHARACTERS = {
    "json_schema": 65_536,
    "regex": 16_384,
    "choice": 65_536,
    "grammar": 32_768,
    "lark": 262_144,
}
"""Characters of a constraint, its whitespace included. Compiling is about linear in them; `lark` is written
by this server itself."""

_MAX_CACHED_GRAMMARS = 256  # compiled grammars; a few KB to a few MB each
_MAX_LEXER_FUEL = 50_000
"""Steps of llguidance's lexer before the first mask. With its own million, `(a{1000}){1000}` keeps 170 MB and
takes a second: with these, 10 MB and 20 ms. Schemas of thousands of fields need none of that."""
_MAX_COMPILE_S = 2.0  # of a core, for compiling and the first mask
_MAX_MASK_S = 0.5  # of a core, for each later mask: it holds up every request of the batch


@dataclass(slots=True, frozen=True)
class OutputConstraint:
    """A constraint on an answer.

    `source` is a JSON schema, a regular expression (Rust's syntax; it must match the whole answer), a JSON
    list of strings to choose from, a grammar in GBNF or Lark form, or one in Lark form only.
    """

    kind: ConstraintKind
    source: str
    lenient: bool = False
    """Pass over keywords of a JSON schema that cannot be enforced, instead of refusing them."""
    whitespace: str = WHITESPACE
    """A regular expression for what may stand between the parts of a JSON document."""


@dataclass(slots=True, frozen=True)
class CompiledGrammar:
    """A compiled constraint; may be shared by any number of requests."""

    matcher: "LLMatcher"
    eos_ids: frozenset[int]
    size: int
    """Of the model's vocabulary."""

    def make_matcher(self) -> "GrammarMatcher":
        """A matcher at the beginning of an answer."""
        return GrammarMatcher(self)


class GrammarMatcher:
    """The position of one answer in its grammar. Used by the engine thread alone."""

    def __init__(self, grammar: CompiledGrammar) -> None:
        self._matcher = grammar.matcher.deep_copy()
        self._eos_ids = list(grammar.eos_ids)
        self._size = grammar.size

    @property
    def is_finished(self) -> bool:
        """True if the answer is complete and nothing can follow."""
        return not self._matcher.is_error() and self._matcher.is_stopped()

    def allowed_tokens(self, end_ids: frozenset[int]) -> NDArray[np.bool_]:
        """A mask [vocabulary] of the tokens that may come next; all of `end_ids` if the answer may end.

        Raises GrammarStateError when the grammar is too complex to say.
        """
        began = time.thread_time()
        packed = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        if self._matcher.is_error():
            why = _shorten_message(self._matcher.get_error())
            raise GrammarStateError(f"the constraint cannot be followed: {why}")
        if time.thread_time() - began > _MAX_MASK_S:
            raise GrammarStateError("the constraint is too complex to be followed: use a simpler one")
        allowed = np.unpackbits(packed, count=self._size, bitorder="little").view(np.bool_)
        allowed[self._eos_ids] = False
        if end_ids and self._matcher.is_accepting():
            allowed[list(end_ids)] = True
        return allowed

    def accept_token(self, token_id: int) -> None:
        """Advance by `token_id`, which was allowed and does not end the answer."""
        self._matcher.consume_token(token_id)


class GrammarCompiler:
    """Compiles constraints for one tokenizer and keeps them. Safe to use from several threads.

    `size` is the model's vocabulary, which may be larger or smaller than the tokenizer's.
    """

    def __init__(self, tokenizer: Tokenizer, eos_ids: frozenset[int], size: int) -> None:
        self._tokenizer = tokenizer
        self._eos_ids = frozenset(i for i in eos_ids | tokenizer.eos_token_ids if i < size)
        self._size = size
        self._lock = threading.Lock()
        self._vocabulary: LLTokenizer | None = None
        self._compiled: OrderedDict[OutputConstraint, CompiledGrammar] = OrderedDict()

    def get_cached(self, constraint: OutputConstraint) -> CompiledGrammar | None:
        """The grammar of `constraint` if it has been compiled before, else None."""
        with self._lock:
            grammar = self._compiled.get(constraint)
            if grammar is not None:
                self._compiled.move_to_end(constraint)
            return grammar

    def compile_constraint(self, constraint: OutputConstraint) -> CompiledGrammar:
        """Compile `constraint`; blocks. Raises InvalidGrammarError or GrammarUnavailableError."""
        grammar = self.get_cached(constraint)
        if grammar is None:
            grammar = self._compile_grammar(constraint)
            with self._lock:
                self._compiled[constraint] = grammar
                if len(self._compiled) > _MAX_CACHED_GRAMMARS:
                    self._compiled.popitem(last=False)
        return grammar

    def _compile_grammar(self, constraint: OutputConstraint) -> CompiledGrammar:
        try:
            from llguidance import LLMatcher, LLParserLimits
        except ImportError as error:
            message = "constraints need the llguidance package: pip install 'radixway[engine]'"
            raise GrammarUnavailableError(message) from error
        length = len(constraint.source) + len(constraint.whitespace)
        limit = MAX_SOURCE_CHARACTERS[constraint.kind]
        if length > limit:
            raise InvalidGrammarError(f"it has {length} characters; at most {limit} are taken")
        vocabulary = self._read_vocabulary()
        began = time.thread_time()
        limits = LLParserLimits(
            max_grammar_size=200_000, initial_lexer_fuel=_MAX_LEXER_FUEL, verbose_errors=False
        )
        matcher = LLMatcher(vocabulary, _library_grammar(constraint), log_level=0, limits=limits)
        if not matcher.is_error():
            matcher.compute_bitmask()
        if matcher.is_error():
            raise InvalidGrammarError(_shorten_message(matcher.get_error()))
        if time.thread_time() - began > _MAX_COMPILE_S:
            raise InvalidGrammarError("it is too complex: use a simpler one")
        return CompiledGrammar(matcher, self._eos_ids, self._size)

    def _read_vocabulary(self) -> "LLTokenizer":
        from llguidance import LLTokenizer

        with self._lock:
            if self._vocabulary is None:
                wrapper: Any = _LlguidanceTokenizer(self._tokenizer, self._eos_ids, self._size)
                self._vocabulary = LLTokenizer(wrapper, eos_token=sorted(self._eos_ids) or None)
            return self._vocabulary


class _LlguidanceTokenizer:
    """Adapts our tokenizer to llguidance's `TokenizerWrapper`."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, eos_ids: frozenset[int], size: int) -> None:
        self._tokenizer = tokenizer
        self.tokens = [tokenizer.token_bytes[token_id] for token_id in range(size)]
        self.special_token_ids = sorted(i for i in tokenizer.special_ids | eos_ids if i < size)
        self.eos_token_id = min(eos_ids, default=0)
        self._by_bytes: dict[bytes, int] = {}

    def __call__(self, text: str | bytes) -> Sequence[int]:
        """The tokens that a model would write this text with, after other text."""
        data = text if isinstance(text, bytes) else text.encode()
        written = data.decode("utf-8", "replace")
        first = self._encode("a")
        for ids in (self._encode(written), self._encode("a" + written)[len(first) :]):
            if b"".join(self.tokens[i] for i in ids if i < len(self.tokens)) == data:
                return ids
        return self._encode_bytes(data)

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _encode_bytes(self, data: bytes) -> list[int]:
        """Encode greedily by longest tokens; bytes without a token are left out."""
        if not self._by_bytes:
            self._by_bytes = {piece: token_id for token_id, piece in enumerate(self.tokens) if piece}
        longest, ids, at = max(map(len, self._by_bytes)), [], 0
        while at < len(data):
            ends = range(min(len(data), at + longest), at, -1)
            end = next((end for end in ends if data[at:end] in self._by_bytes), None)
            if end is not None:
                ids.append(self._by_bytes[data[at:end]])
            at = end or at + 1
        return ids


def _library_grammar(constraint: OutputConstraint) -> str:
    """Return the constraint in llguidance's form. Raises InvalidGrammarError."""
    from llguidance import LLMatcher, grammar_from

    try:
        match constraint.kind:
            case "json_schema":
                options: Any = {"whitespace_pattern": constraint.whitespace, "lenient": constraint.lenient}
                return LLMatcher.grammar_from_json_schema(constraint.source, overrides=options)
            case "regex":
                return LLMatcher.grammar_from_regex(constraint.source)
            case "choice":
                return grammar_from("choice", constraint.source)
            case "grammar":
                return grammar_from("grammar", constraint.source)
            case "lark":
                return LLMatcher.grammar_from_lark(constraint.source)
    except (ValueError, RecursionError) as error:
        raise InvalidGrammarError(_shorten_message(str(error) or type(error).__name__)) from None


def _shorten_message(message: str) -> str:
    """Shorten a library error to one line."""
    line = " ".join(message.split())
    return line if len(line) <= 300 else line[:299] + "…"
