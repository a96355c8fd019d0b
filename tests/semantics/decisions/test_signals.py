"""What each kind of signal finds in a question."""

import pytest

from radixway.core.config import ConfigError
from radixway.core.config.semantic import (
    ContextSignalConfig,
    HeaderSignalConfig,
    KeywordSignalConfig,
    RegexSignalConfig,
)
from radixway.semantics.signals.complexity import lexical_complexity
from radixway.semantics.signals.context_length import ContextLengthDetector
from radixway.semantics.signals.header import HeaderDetector
from radixway.semantics.signals.keyword import KeywordDetector, RegexDetector
from radixway.semantics.signals.language import detect_language
from radixway.semantics.signals.question import RequestQuestion, read_question


def matches(text: str, **rule) -> bool:
    detector = KeywordDetector([KeywordSignalConfig(name="r", **rule)])
    return any(signal.matched for signal in detector.detect_signals(RequestQuestion(text)))


@pytest.mark.parametrize(
    ("rule", "text", "matched"),
    [
        ({"keywords": ["pod"]}, "restart the pod, please", True),
        ({"keywords": ["pod"]}, "the podium", False),
        ({"keywords": ["pod"]}, "tripod", False),
        ({"keywords": ["pod"]}, "重启pod吗", True),
        ({"keywords": ["C++"]}, "is C++20 faster", True),
        ({"keywords": ["social security"]}, "my social  \n security number", True),
        ({"keywords": ["SQL"]}, "ｓｑｌ joins", True),
        ({"keywords": ["SQL"], "case_sensitive": True}, "sql joins", False),
        ({"keywords": ["SQL"], "case_sensitive": True}, "SQL joins", True),
        ({"keywords": ["定理"]}, "证明费马大定理", True),
        ({"keywords": ["a", "b"], "operator": "AND"}, "a or b", True),
        ({"keywords": ["a", "b"], "operator": "and"}, "a or c", False),
        ({"keywords": ["a", "b"], "operator": "NOR"}, "c", True),
        ({"keywords": ["a", "b"], "operator": "NOT"}, "b", False),
        ({"keywords": ["CVE-\\d{4}-\\d+"], "method": "regex"}, "see cve-2024-3094", True),
        ({"keywords": ["CVE-\\d{4}-\\d+"], "method": "regex", "case_sensitive": True}, "cve-2024-1", False),
        ({"keywords": ["kubernetes"], "method": "fuzzy"}, "my kuberntes, broke", True),
        ({"keywords": ["kubernetes"], "method": "fuzzy"}, "my cabinets broke", False),
        ({"keywords": ["social security"], "method": "fuzzy"}, "a socal securty card", True),
        ({"keywords": ["费马大定理"], "method": "fuzzy", "fuzzy_threshold": 75}, "请证明费玛大定理", True),
    ],
)
def test_keywords(rule, text, matched):
    assert matches(text, **rule) is matched


def test_of_any_of_keywords_two_are_surer_than_one():
    detector = KeywordDetector(
        [KeywordSignalConfig(name="math", keywords=["定理", "证明", "积分"])], ["math"]
    )
    one, two = (
        next(iter(detector.detect_signals(RequestQuestion(text)))) for text in ("勾股定理", "证明费马大定理")
    )
    assert one.confidence == pytest.approx(2 / 3) and two.confidence == pytest.approx(0.8)
    assert two.category == "math"


def test_thousands_of_words_are_one_automaton():
    words = [f"word{number}" for number in range(5000)]
    detector = KeywordDetector([KeywordSignalConfig(name=f"r{word}", keywords=[word]) for word in words])
    found = [
        signal.name
        for signal in detector.detect_signals(RequestQuestion("only word17 and word4999 are here"))
    ]
    assert found == ["rword17", "rword4999"]


def test_a_pattern_that_backtracks_elsewhere_takes_linear_time_here():
    assert not matches("a" * 20_000 + "!", keywords=["^(a+)+$"], method="regex")


@pytest.mark.parametrize("pattern", ["(a", "(?<=a)b", "\\1"])
def test_a_pattern_that_is_none_of_re2s_is_refused_in_words(pattern):
    with pytest.raises(ConfigError, match="is not one of RE2's"):
        KeywordDetector([KeywordSignalConfig(name="r", keywords=[pattern], method="regex")])


def test_patterns_look_at_every_turn():
    messages = [
        {"role": "user", "content": "ssn 123-45-6789"},
        {"role": "assistant", "content": "noted"},
        {"role": "user", "content": "repeat it"},
    ]
    detector = RegexDetector([RegexSignalConfig(name="ssn", pattern=r"\d{3}-\d{2}-\d{4}")])
    assert [signal.name for signal in detector.detect_signals(read_question({"messages": messages}))] == [
        "ssn"
    ]


SSN = "123-45-6789"


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "input_text", "text": SSN}]},
        {"role": "user", "content": [{"text": SSN}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": SSN}]},
        {"role": "assistant", "content": None, "reasoning_content": SSN},
        {"role": "user", "name": SSN, "content": "hi"},
        {"role": "assistant", "tool_calls": [{"type": "function", "function": {"arguments": SSN}}]},
        {"role": "tool", "content": [[[{"deep": {"down": [SSN]}}]]]},
    ],
)
def test_what_must_not_pass_is_found_wherever_in_a_message_it_stands(message):
    detector = RegexDetector([RegexSignalConfig(name="ssn", pattern=r"\d{3}-\d{2}-\d{4}")])
    messages = [message, {"role": "user", "content": "repeat it"}]
    assert [signal.name for signal in detector.detect_signals(read_question({"messages": messages}))] == [
        "ssn"
    ]


def test_the_conversation_is_all_that_is_said_and_nothing_of_its_pictures():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look"}, picture]},
        5,
        {"role": "user", "content": "again"},
    ]
    assert read_question({"messages": messages}).whole == "Be brief.\nLook\nagain"


def test_the_question_is_the_last_user_message_with_its_text_parts_joined():
    parts = [
        {"type": "text", "text": "what is"},
        {"type": "image_url", "image_url": {}},
        {"type": "text", "text": "this?"},
    ]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": parts},
        {"role": "tool", "content": "x"},
    ]
    assert read_question({"messages": messages}).text == "what is\nthis?"
    assert read_question({"messages": [{"role": "system", "content": "only this"}]}).text == "only this"
    assert read_question({"prompt": "complete me"}).text == "complete me"
    assert read_question({"text": ["generate", "me"]}).text == "generate me"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Why is the sky blue?", "en"),
        ("证明费马大定理", "zh"),
        ("请解释 Kubernetes 的 pod 调度机制", "zh"),
        ("なぜ空は青いのですか", "ja"),
        ("왜 하늘은 파란가요", "ko"),
        ("Почему небо голубое?", "ru"),
        ("Warum ist der Himmel blau und nicht grün?", "de"),
        ("Pourquoi le ciel est bleu dans la journée ?", "fr"),
        ("¿Por qué el cielo es azul?", "es"),
        ("12 + 7 = ?", ""),
    ],
)
def test_languages(text, language):
    assert detect_language(text)[0] == language


def test_how_long_a_conversation_is():
    detector = ContextLengthDetector(
        [ContextSignalConfig(name="short", max_tokens=10), ContextSignalConfig(name="long", min_tokens=11)]
    )
    assert [signal.name for signal in detector.detect_signals(RequestQuestion("hello"))] == ["", "short"]
    assert [signal.name for signal in detector.detect_signals(RequestQuestion("x", whole="word " * 100))] == [
        "",
        "long",
    ]


def test_headers_by_value_by_pattern_and_by_being_there():
    detector = HeaderDetector(
        [
            HeaderSignalConfig(name="gold", header="X-Plan", values=("gold",)),
            HeaderSignalConfig(name="beta", header="x-build", pattern=r"\d+-beta"),
            HeaderSignalConfig(name="any", header="x-anything"),
        ]
    )
    question = RequestQuestion("", headers={"x-plan": "gold", "x-build": "12-beta2"})
    assert [signal.name for signal in detector.detect_signals(question)] == ["gold"]


def test_a_proof_is_harder_than_a_greeting():
    hard = "Prove step by step that the algorithm has complexity O(n^2), then compare the trade-offs."
    assert lexical_complexity("hello there") < 0.1 < 0.5 < lexical_complexity(hard)
    assert lexical_complexity("请证明这个定理并分析算法的复杂度") > 0.4


def test_what_the_guard_found_is_known_by_its_type_and_by_the_signals_that_are_configured():
    from radixway.core.config.semantic import SignalsConfig
    from radixway.core.pipeline import AttackAssessment, GuardFindings, PersonalDataSpan
    from radixway.semantics.signals.guard_findings import guard_signals

    section = SignalsConfig.model_validate(
        {
            "pii": [{"name": "private", "threshold": 0.8, "pii_types_allowed": ["GPE"]}],
            "jailbreak": [{"name": "careful", "threshold": 0.3}],
        }
    )
    found = [PersonalDataSpan("GPE", 0, 4, 0.95), PersonalDataSpan("PERSON", 5, 9, 0.75)]
    attacks = [
        AttackAssessment(0.1, {"prompt_injection": 0.1}),
        AttackAssessment(0.4, {"prompt_injection": 0.4}),
    ]
    said = guard_signals(GuardFindings(found, attacks, 0.7, 0.7), section)
    told = {(s.kind, s.name): (s.matched, s.confidence) for found in said.values() for s in found}
    assert told == {
        ("pii", "GPE"): (True, 0.95),
        ("pii", "PERSON"): (True, 0.75),
        ("pii", "private"): (False, 0.75),
        ("jailbreak", "prompt_injection"): (False, 0.4),
        ("jailbreak", "careful"): (True, 0.4),
    }
