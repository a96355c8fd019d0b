"""Whose answers may be compared at all."""

import pytest

from radixway.semantics.cache.cache_question import NotCacheableError, normalize_question, read_cache_question

ASKED = {
    "model": "auto",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the capital of France?"},
    ],
}


def read(body=ASKED, **more):
    return read_cache_question(body, **({"tenant": "a", "user": None} | more))


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "m"},
        {"messages": [{"role": "system", "content": "Be long."}, ASKED["messages"][1]]},
        {"messages": ASKED["messages"][1:]},
        {"messages": [ASKED["messages"][0], {"role": "user", "content": "Hi"}, ASKED["messages"][1]]},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"temperature": 0.3},
        {"max_tokens": 7},
        {"response_format": {"type": "json_object"}},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"something_new": 1},
    ],
)
def test_whatever_may_change_the_answer_changes_the_scope(changed):
    assert read(ASKED | changed).scope != read().scope
    assert read(ASKED | changed).exact == read().exact


@pytest.mark.parametrize(
    "changed",
    [{"stream": True, "stream_options": {"include_usage": True}}, {"metadata": {"a": "b"}}, {"top_p": None}],
)
def test_how_an_answer_is_delivered_does_not(changed):
    assert read(ASKED | changed).scope == read().scope


def test_content_in_parts_is_the_same_as_a_string():
    parts = [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "What is the capital of France?"}]},
    ]
    assert read(ASKED | {"messages": parts}) == read()


def test_tenants_never_share():
    assert read(tenant="a").scope != read(tenant="b").scope


@pytest.mark.parametrize(("share", "shared"), [("tenant", True), ("user", False), ("user_if_known", False)])
def test_users_share_where_the_policy_says_so(share, shared):
    assert (read(user="u", share=share).scope == read(user="v", share=share).scope) is shared


def test_where_each_user_has_their_own_a_request_of_nobody_has_none():
    with pytest.raises(NotCacheableError, match="no_user"):
        read(share="user")


def test_vectors_of_another_encoder_are_another_scope():
    assert read(encoder="a").scope != read(encoder="b").scope


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"n": 2}, "several_answers"),
        ({"logprobs": True}, "logprobs"),
        ({"messages": [{"role": "user", "content": "  "}]}, "no_text"),
        ({"messages": [{"role": "user", "content": None}]}, "no_text"),
        ({"messages": [{"role": "user", "content": []}]}, "no_text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "more_than_text",
        ),
        ({"messages": [{"role": "user", "content": [3]}]}, "more_than_text"),
        ({"messages": [{"role": "tool", "content": "4"}]}, "not_a_user_turn"),
        ({"messages": [{"role": "user", "content": "x", "name": "Bob"}]}, "named_turn"),
        ({"messages": []}, "no_messages"),
        ({"messages": [7]}, "no_messages"),
        ({"messages": [7, {"role": "user", "content": "x"}]}, "no_messages"),
    ],
)
def test_what_cannot_be_compared_says_why(changed, reason):
    with pytest.raises(NotCacheableError, match=reason):
        read(ASKED | changed)


def test_a_prompt_of_completions_is_a_question_and_several_are_not():
    assert read({"model": "m", "prompt": "Once"}).text == "Once"
    with pytest.raises(NotCacheableError, match="several_prompts"):
        read({"model": "m", "prompt": ["Once", "Twice"]})


def test_later_turns_can_be_left_out():
    later = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        ASKED["messages"][1],
    ]
    read({"model": "m", "messages": later})
    with pytest.raises(NotCacheableError, match="multi_turn"):
        read({"model": "m", "messages": later}, multi_turn=False)


def test_hot_and_long_questions_pass_by():
    with pytest.raises(NotCacheableError, match="temperature"):
        read(ASKED | {"temperature": 1.0}, max_temperature=0.7)
    with pytest.raises(NotCacheableError, match="long_question"):
        read(longest_chars=5)


def test_a_body_that_is_no_unicode_is_not_compared():
    with pytest.raises(NotCacheableError, match="not_encodable"):
        read(ASKED | {"stop": "\ud800"})


def test_blanks_are_normalised_and_what_means_something_in_code_is_not():
    assert normalize_question("  What   is\tit? ") == "What is it?"
    assert normalize_question("def f():\n    pass") == "def f():\n    pass"
    assert normalize_question("e\u0301") == "\u00e9"
    assert normalize_question("x²") != normalize_question("x2")
    assert normalize_question("Polish") != normalize_question("polish")
