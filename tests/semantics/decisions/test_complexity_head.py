"""Rules by a trained head: who needs the strong model, learnt from who answered what well."""

import numpy as np
import pytest

from quality_fit import fit_quality, to_quality_head
from radixway.core.config import ConfigError, EncodersConfig
from radixway.core.config.semantic import SemanticConfig
from radixway.semantics.decisions import RequestQuestion, SignalReader, compile_snapshot, judge_signals
from radixway.semantics.encoders import load_encoder

PROOFS = [
    "Prove that there are infinitely many primes",
    "Show that the square root of two is irrational",
    "Derive the quadratic formula",
    "Prove the triangle inequality in a metric space",
]
GREETINGS = ["Good morning", "Hello, how are you today?", "Thanks a lot, bye!", "Nice to meet you"]


@pytest.fixture(scope="module")
def encoder():
    return load_encoder(EncodersConfig(backend="numpy"))


@pytest.fixture
def encode(encoder):
    async def one(text):
        return encoder.encode([text])[0]

    return one


@pytest.fixture
def head(encoder, tmp_path):
    """Both models know greetings, only the strong one proofs."""
    vectors = np.stack([each.vector for each in encoder.encode([*PROOFS, *GREETINGS])])
    right = np.array([[0, 1]] * 4 + [[1, 1]] * 4, np.float32)
    arrays = fit_quality(vectors, None, right, strength=0.1)
    to_quality_head(arrays, ["weak", "strong"], encoder, "eight sentences").save_file(tmp_path / "tier.npz")
    return tmp_path / "tier.npz"


def section(head, /, **rule):
    strong = {
        "name": "strong",
        "priority": 10,
        "rules": {"type": "complexity", "name": "tier:hard"},
        "modelRefs": [{"model": "strong", "use_reasoning": False}],
    }
    signals = {"complexity": [{"name": "tier", "head": str(head), "threshold": 0.5, **rule}]}
    return SemanticConfig.model_validate({"default_model": "weak", "signals": signals, "decisions": [strong]})


async def test_questions_that_only_the_strong_model_answers_go_there(head, encode):
    snapshot = await compile_snapshot(section(head), encode, None)

    async def rule_for(text):
        _, verdict, failed = await SignalReader(encode).read_signals(
            snapshot, RequestQuestion(text, text), lambda signals: judge_signals(snapshot.rules, signals)
        )
        assert not failed
        return verdict.rule and verdict.rule.name

    assert await rule_for("Prove that every even number is twice another") == "strong"
    assert await rule_for("Hello, good evening to you") is None


async def test_a_head_that_cannot_be_used_is_refused_with_the_rules_name(head, encode, encoder, tmp_path):
    broken = tmp_path / "broken.npz"
    broken.write_bytes(head.read_bytes()[:-50])
    with pytest.raises(ConfigError, match="tier: .*broken.npz is no head"):
        await compile_snapshot(section(broken), encode, None)

    async def other(text):
        encoding = await encode(text)
        encoding.vector = encoding.vector[::-1].copy()
        return encoding

    with pytest.raises(ConfigError, match="tier: .*another encoder"):
        await compile_snapshot(section(head), other, None)
    vectors = np.eye(encoder.size, dtype=np.float32)[:9]
    reads_domains = fit_quality(vectors, np.ones((9, 14), np.float32), np.ones((9, 2), np.float32))
    to_quality_head(reads_domains, ["weak", "strong"], encoder, "").save_file(tmp_path / "domains.npz")
    with pytest.raises(ConfigError, match="tier: .*the vector alone"):
        await compile_snapshot(section(tmp_path / "domains.npz"), encode, None)


@pytest.mark.parametrize("rule", [{"hard": {"candidates": ["a"]}}, {"head": None}])
def test_a_rule_has_examples_of_both_kinds_or_a_head(rule):
    with pytest.raises(ValueError, match="tier needs hard and easy, or a head"):
        section("tier.npz", **rule)
