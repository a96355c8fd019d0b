"""Constraints: whatever a model would say, what it may say has the form asked for."""

import json
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest

from radixway.core.tokenizer import Tokenizer
from radixway.engine.engine_request import RequestOutput
from radixway.engine.errors import GrammarStateError, GrammarUnavailableError, InvalidGrammarError
from radixway.engine.grammar_compiler import (
    MAX_SOURCE_CHARACTERS,
    CompiledGrammar,
    GrammarCompiler,
    OutputConstraint,
)
from radixway.engine.sampler import NO_ALLOWED_TOKEN
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.structured_output import ReasonerGrammar
from support.driving import finish, submit, tiny_core
from support.scripted_engine import GUIDE
from support.small_tokenizers import make_model_dirs

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "likes": {"type": "array", "items": {"enum": ["tea", "朝茶", 'a"b']}, "maxItems": 3},
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session", params=["guide", "qwen", "llama3", "llama2"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    if request.param == "guide":
        return Tokenizer.load(GUIDE)
    tokenizer = Tokenizer.load(make_model_dirs(tmp_path_factory.mktemp("tokenizers"))[request.param])
    tokenizer.eos_token_ids &= tokenizer.special_ids  # one of them names a token that is text here
    return tokenizer


@pytest.fixture(scope="session")
def guide_tokenizer() -> Tokenizer:
    return Tokenizer.load(GUIDE)


@pytest.fixture(scope="session")
def grammars(guide_tokenizer: Tokenizer) -> GrammarCompiler:
    return GrammarCompiler(guide_tokenizer, guide_tokenizer.eos_token_ids, guide_tokenizer.size)


def wander(tokenizer: Tokenizer, grammar: CompiledGrammar, end_ids: frozenset[int], seed: int) -> str:
    """An answer drawn from all that is allowed; short tokens that end things are likelier than others."""
    dice, matcher, text = random.Random(seed), grammar.make_matcher(), b""
    for _ in range(2000):
        if matcher.is_finished:
            return text.decode()
        choices = np.nonzero(matcher.allowed_tokens(end_ids))[0].tolist()
        assert choices
        ends = [c for c in choices if c in end_ids or tokenizer.token_bytes[c] in (b'"', b"}", b"]", b",")]
        token = dice.choice(ends if ends and dice.random() < 0.4 else choices)
        if token in end_ids:
            return text.decode()
        matcher.accept_token(token)
        text += tokenizer.token_bytes[token]
    raise AssertionError(f"no end to {text!r}")


@pytest.mark.parametrize("seed", range(5))
def test_what_is_allowed_makes_a_document_of_the_schema(tokenizer: Tokenizer, seed: int) -> None:
    grammars = GrammarCompiler(tokenizer, tokenizer.eos_token_ids, tokenizer.size)
    grammar = grammars.compile_constraint(OutputConstraint("json_schema", json.dumps(PERSON)))
    person = json.loads(wander(tokenizer, grammar, tokenizer.eos_token_ids, seed))
    assert set(person) == {"name", "age", "likes"}
    assert len(person["name"]) <= 12 and 0 <= person["age"] <= 150
    assert set(person["likes"]) <= {"tea", "朝茶", 'a"b'} and len(person["likes"]) <= 3


@pytest.mark.parametrize("seed", range(5))
def test_what_is_allowed_matches_the_regex_choice_or_grammar(tokenizer: Tokenizer, seed: int) -> None:
    grammars = GrammarCompiler(tokenizer, tokenizer.eos_token_ids, tokenizer.size)

    def said(constraint: OutputConstraint) -> str:
        return wander(tokenizer, grammars.compile_constraint(constraint), tokenizer.eos_token_ids, seed)

    assert re.fullmatch(
        r"(\+[0-9]{2} )?[0-9]{3}-[0-9]{4}",
        said(OutputConstraint("regex", r"(\+[0-9]{2} )?[0-9]{3}-[0-9]{4}")),
    )
    assert said(OutputConstraint("choice", '["yes", "yes, but", "não 😀"]')) in ("yes", "yes, but", "não 😀")
    gbnf = 'root ::= term ("+" term)*\nterm ::= [0-9] | "(" root ")"'
    lark = 'start: term ("+" term)*\nterm: /[0-9]/ | "(" start ")"'
    for grammar in (gbnf, lark):
        text = said(OutputConstraint("grammar", grammar))
        assert re.fullmatch(r"[0-9+()]+", text) and eval(text) >= 0


def test_an_answer_may_end_only_where_the_grammar_may(
    grammars: GrammarCompiler, guide_tokenizer: Tokenizer
) -> None:
    eos = guide_tokenizer.eos_token_ids
    matcher = grammars.compile_constraint(OutputConstraint("regex", "ab?")).make_matcher()
    assert not matcher.allowed_tokens(eos)[list(eos)].any()
    matcher.accept_token(guide_tokenizer.encode("a")[0])
    assert matcher.allowed_tokens(eos)[list(eos)].all() and not matcher.is_finished
    assert not matcher.allowed_tokens(frozenset())[list(eos)].any(), "ignore_eos"
    stop = guide_tokenizer.encode("z")[0]
    assert matcher.allowed_tokens(frozenset({stop}))[stop]
    matcher.accept_token(guide_tokenizer.encode("b")[0])
    assert matcher.is_finished


@pytest.mark.parametrize("more", [-1000, 0, 50])
def test_the_models_vocabulary_may_be_of_another_size_than_the_tokenizers(
    guide_tokenizer: Tokenizer, more: int
) -> None:
    size = guide_tokenizer.size + more
    grammars = GrammarCompiler(guide_tokenizer, guide_tokenizer.eos_token_ids, size)
    allowed = (
        grammars.compile_constraint(OutputConstraint("regex", ".*"))
        .make_matcher()
        .allowed_tokens(frozenset())
    )
    assert allowed.shape == (size,) and allowed.any() and not allowed[guide_tokenizer.size :].any()


@pytest.mark.parametrize(
    ("constraint", "why"),
    [
        (OutputConstraint("regex", "("), "unclosed group"),
        (OutputConstraint("regex", "(?=a)b"), "look-around"),
        (OutputConstraint("json_schema", '{"type": "thing"}'), "thing"),
        (OutputConstraint("json_schema", '{"$ref": "http://127.0.0.1/x"}'), "does not fetch"),
        (OutputConstraint("json_schema", '{"not": {}}'), "not"),
        (OutputConstraint("json_schema", '{"enum": []}'), "nsatisfiable"),
        (OutputConstraint("grammar", "root ::= nowhere"), "nowhere"),
        (OutputConstraint("grammar", "root ::= " + "(" * 10_000), "recursion"),
        (OutputConstraint("grammar", "start: ((("), "Expected"),
        (OutputConstraint("regex", "a" * (MAX_SOURCE_CHARACTERS["regex"] + 1)), "characters"),
    ],
    ids=lambda value: None if isinstance(value, str) else value.kind,
)
def test_what_cannot_be_compiled_is_refused_in_a_sentence(
    grammars: GrammarCompiler, constraint: OutputConstraint, why: str
) -> None:
    with pytest.raises(InvalidGrammarError, match=why) as refused:
        grammars.compile_constraint(constraint)
    assert len(str(refused.value)) < 400 and "\n" not in str(refused.value)


def test_what_takes_too_long_to_compile_is_refused(
    grammars: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radixway.engine.grammar_compiler._MAX_COMPILE_S", 0)
    with pytest.raises(InvalidGrammarError, match="too complex"):
        grammars.compile_constraint(OutputConstraint("regex", "(a{100}){100}"))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the process's memory from /proc")
def test_large_repetitions_keep_little_memory(grammars: GrammarCompiler) -> None:
    def resident_bytes() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    before = resident_bytes()
    kept = [
        grammars.compile_constraint(OutputConstraint("regex", f"(a{{1000}}){{1000}}{end}")) for end in "bcd"
    ]
    assert len(kept) == 3 and resident_bytes() - before < 150 * 2**20, "llguidance's own limits: 170 MB each"
    for schema in (
        {"enum": [f"value number {number}" for number in range(3_000)]},
        {"type": "string", "minLength": 4_000},
        {"type": "string", "pattern": "^[A-Z][a-z]+( [A-Z][a-z]+)*$", "minLength": 5, "maxLength": 200},
        {"type": "array", "items": {"type": "string", "format": "date-time"}},
        {"type": "integer", "multipleOf": 100_000},
    ):
        assert grammars.compile_constraint(OutputConstraint("json_schema", json.dumps(schema)))


def test_a_lenient_schema_passes_over_what_cannot_be_enforced(grammars: GrammarCompiler) -> None:
    schema = '{"type": "array", "items": {"type": "integer"}, "uniqueItems": true}'
    with pytest.raises(InvalidGrammarError, match="uniqueItems"):
        grammars.compile_constraint(OutputConstraint("json_schema", schema))
    assert grammars.compile_constraint(OutputConstraint("json_schema", schema, lenient=True))


def test_compiled_grammars_are_kept(grammars: GrammarCompiler) -> None:
    constraint = OutputConstraint("regex", "kept")
    assert grammars.get_cached(constraint) is None
    grammar = grammars.compile_constraint(constraint)
    assert grammars.get_cached(constraint) is grammar is grammars.compile_constraint(constraint)
    one, two = grammar.make_matcher(), grammar.make_matcher()
    one.accept_token(int(np.nonzero(one.allowed_tokens(frozenset()))[0][0]))
    assert not np.array_equal(one.allowed_tokens(frozenset()), two.allowed_tokens(frozenset()))


def test_without_the_library_a_constraint_is_refused(
    grammars: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "llguidance", None)
    with pytest.raises(GrammarUnavailableError, match="radixway\\[engine\\]"):
        grammars.compile_constraint(OutputConstraint("regex", "never seen"))


# In the engine


def answers(core: object, outputs: list[RequestOutput]) -> dict[str, tuple[str, str]]:
    """By request: its text and why it ended."""
    found: dict[str, tuple[str, str]] = {}
    for output in outputs:
        text, _ = found.get(output.request_id, ("", ""))
        reason = output.finish.type if output.finish else ""
        found[output.request_id] = (text + output.text, reason)
    return found


def test_constrained_and_free_requests_share_batches_and_a_pool_too_small(
    grammars: GrammarCompiler, guide_tokenizer: Tokenizer
) -> None:
    from radixway.engine.detokenizer import DetokenizedStream

    core = tiny_core(GUIDE, kv_tokens=240, context_length=224)
    core._text = lambda params: DetokenizedStream(guide_tokenizer, params)
    kinds = {
        "json": OutputConstraint("json_schema", json.dumps(PERSON)),
        "regex": OutputConstraint("regex", "([a-z]{3,9} ){20}[0-9]{4}"),
        "choice": OutputConstraint("choice", '["red", "green", "blue"]'),
    }
    prompt = guide_tokenizer.encode("Who are you, and what do you like?")
    free = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)
    for seed in range(4):
        submit(core, prompt, free, name=f"free{seed}")
        for name, constraint in kinds.items():
            params = SamplingParams(
                seed=seed,
                max_tokens=180,
                ignore_eos=seed == 3,
                logprobs=0,
                grammar=grammars.compile_constraint(constraint),
            )
            submit(core, prompt, params, name=f"{name}{seed}")
    outputs = finish(core)
    assert core.stats().preemptions > 0
    found = answers(core, outputs)
    for seed in range(4):
        assert found[f"choice{seed}"] in [(color, "stop") for color in ("red", "green", "blue")]
        text, reason = found[f"regex{seed}"]
        assert reason == "stop" and re.fullmatch("([a-z]{3,9} ){20}[0-9]{4}", text)
        text, reason = found[f"json{seed}"]
        assert reason == "stop" and json.loads(text)["age"] <= 150
    alone = tiny_core(GUIDE, kv_tokens=2048, context_length=256)
    alone._text = core._text
    submit(alone, prompt, free, name="free0")
    assert answers(alone, finish(alone))["free0"] == found["free0"] == found["free3"]


def test_a_request_whose_grammar_fails_ends_alone(
    grammars: GrammarCompiler, guide_tokenizer: Tokenizer
) -> None:
    class Failing:
        is_finished = False

        def make_matcher(self) -> "Failing":
            return self

        def allowed_tokens(self, end_ids: frozenset[int]) -> np.ndarray:
            raise GrammarStateError("the constraint is too complex")

        def accept_token(self, token_id: int) -> None:
            raise AssertionError

    core = tiny_core(GUIDE)
    prompt = guide_tokenizer.encode("hello")
    params = {"temperature": 0, "max_tokens": 5, "ignore_eos": True}
    submit(core, prompt, SamplingParams(**params), name="free")
    submit(core, prompt, SamplingParams(**params, grammar=Failing()), name="failing")
    choice = grammars.compile_constraint(OutputConstraint("choice", '["yes"]'))
    biased = SamplingParams(
        **params, grammar=choice, min_tokens=5, stop_token_ids=frozenset(range(4096)) - {9}
    )
    submit(core, prompt, biased, name="impossible")
    last = {output.request_id: output.finish for output in finish(core) if output.finish}
    assert (last["failing"].type, last["failing"].message) == ("abort", "the constraint is too complex")
    assert (last["impossible"].type, last["impossible"].message) == ("abort", NO_ALLOWED_TOKEN)
    assert last["free"].type == "length"


def test_a_model_may_think_before_its_constraint_begins(
    grammars: GrammarCompiler, guide_tokenizer: Tokenizer
) -> None:
    tokenizer, eos = guide_tokenizer, guide_tokenizer.eos_token_ids
    yes = grammars.compile_constraint(OutputConstraint("choice", '["yes"]'))

    def after(*, opens: int | None, inside: bool) -> ReasonerGrammar:
        tokens = tokenizer.token_bytes
        return ReasonerGrammar(after=yes, token_bytes=tokens, opens=opens, closes=b"</think>", inside=inside)

    matcher = after(opens=None, inside=True).make_matcher()
    for token in tokenizer.encode("Hm, <b>no</b>. So </think>"):
        allowed = matcher.allowed_tokens(eos)
        assert allowed[token] and not allowed[list(eos)].any()
        matcher.accept_token(token)
    assert matcher.allowed_tokens(eos).tolist() == yes.make_matcher().allowed_tokens(eos).tolist()
    for token in tokenizer.encode("yes"):
        assert matcher.allowed_tokens(eos)[token]
        matcher.accept_token(token)
    assert matcher.is_finished

    opens = tokenizer.encode("#")[0]
    thinks, answers_at_once = (after(opens=opens, inside=False).make_matcher() for _ in range(2))
    assert thinks.allowed_tokens(eos)[opens]
    thinks.accept_token(opens)
    assert thinks.allowed_tokens(eos).sum() > 4000
    first = tokenizer.encode("yes")[0]
    answers_at_once.accept_token(first)
    assert not answers_at_once.allowed_tokens(eos)[opens]
