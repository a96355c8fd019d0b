"""Who gets a prompt, by the three tiers, and by expected time."""

from collections import Counter

import pytest

from support.tested_fleet import TestedFleet

CHAT = "You answer questions about boats. " * 20


def test_a_conversation_goes_on_where_it_began():
    tested = TestedFleet("abcd")
    first = tested.send_and_end(CHAT)
    for turn in range(5):
        chat = CHAT + "And which is the fastest one? " * turn
        assert tested.choose(chat) == (first, "prefix")
        tested.send_and_end(chat)


def test_the_deepest_prefix_wins():
    tested = TestedFleet("abc")
    tested.send_and_end(CHAT, to="a")
    tested.send_and_end(CHAT + "Tell me of sails. " * 10, to="b")
    assert tested.choose(CHAT + "Tell me of sails. " * 10) == ("b", "prefix")


def test_prompts_of_a_line_have_beginnings_in_common_too():
    tested = TestedFleet("ab")
    tested.send_and_end("Translate to French: good morning", to="b")
    tested.send_and_end("What is the capital of Peru today?", to="a")
    assert tested.choose("Translate to French: good night") == ("b", "prefix")


def test_less_of_a_prompt_than_the_threshold_is_no_reason_to_go_there():
    tested = TestedFleet("ab", match_rate_threshold=0.5)
    tested.send_and_end(CHAT, to="a")
    assert tested.choose(CHAT + "x" * 2 * len(CHAT))[1] == "cold"
    assert tested.choose(CHAT + "x" * (len(CHAT) // 2)) == ("a", "prefix")


def test_cold_prompts_go_to_whom_has_least_in_hand_whatever_they_have_seen():
    tested = TestedFleet("abc")
    tested.send_and_end("b has seen much. " * 500, to="b")
    tested.send("a is busy", to="a")
    tested.send("c is busy", to="c")
    assert tested.choose("nobody has ever seen this prompt") == ("b", "cold")


def test_of_equally_busy_replicas_a_cold_prompt_goes_to_whom_has_seen_least():
    tested = TestedFleet("abc")
    tested.send_and_end("a has seen much. " * 50, to="a")
    tested.send_and_end("c has seen more. " * 90, to="c")
    assert tested.choose("nobody has ever seen this prompt") == ("b", "cold")


def test_cold_prompts_of_a_burst_are_spread_evenly():
    tested = TestedFleet("abcd")
    places = Counter(tested.send(f"{number} begins like nothing else")[0] for number in range(40))
    assert set(places.values()) == {10}


def test_a_burst_of_siblings_goes_where_the_first_one_goes():
    tested = TestedFleet("abcd")
    places = {tested.send(CHAT + f" sample {number}")[0] for number in range(8)}
    assert len(places) == 1


def test_a_replica_that_is_overrun_gets_no_more_for_what_it_has_seen():
    tested = TestedFleet("ab", imbalanced_threshold=3)
    tested.send_and_end(CHAT, to="a")
    for number in range(4):
        assert tested.choose(CHAT) == ("a", "prefix")
        tested.send(f"{number} keeps a busy, and is long enough to be cold", to="a")
    assert tested.choose(CHAT) == ("b", "imbalanced")


def test_one_that_is_overrun_does_not_switch_affinity_off_for_the_others():
    """vllm-router #238, sglang #32195: a gate for the whole fleet is open for ever in some."""
    tested = TestedFleet("abc", imbalanced_threshold=3)
    tested.send_and_end(CHAT, to="b")
    for number in range(20):
        tested.send(f"{number} keeps a busy, and is long enough to be cold", to="a")
    assert tested.choose(CHAT) == ("b", "prefix")


def test_requests_of_other_routers_count():
    tested = TestedFleet("ab", imbalanced_threshold=3)
    tested.send_and_end(CHAT, to="a")
    tested.fleet.set_queue_length(tested.fleet.find_worker("a"), 9)
    assert tested.choose(CHAT) == ("b", "imbalanced")
    tested.fleet.set_queue_length(tested.fleet.find_worker("a"), 0)
    assert tested.choose(CHAT) == ("a", "prefix")


@pytest.mark.parametrize("prompt", ["", "short"])
def test_a_prompt_without_a_block_goes_by_load(prompt):
    """The published router divides by the length of the prompt."""
    tested = TestedFleet("ab")
    tested.send("a is busy with this", to="a")
    assert tested.choose(prompt) == ("b", "no prompt")


def test_only_candidates_are_looked_at():
    """The published router falls back to the smallest of all replicas, allowed or not."""
    tested = TestedFleet("abc")
    tested.send_and_end(CHAT, to="a")
    tested.send_and_end("b has seen something as well. " * 9, to="b")
    assert tested.choose(CHAT, among="bc")[0] in "bc"
    assert tested.choose("nobody has ever seen this prompt", among="ab") == ("b", "cold")


def test_expected_time_weighs_a_prefix_against_what_is_in_hand():
    tested = TestedFleet("ab", policy="expected_time")
    chat = CHAT * 20
    tested.send_and_end(chat, to="a")
    assert tested.choose(chat)[0] == "a"
    request = tested.request("other " * 9000)
    tested.fleet.start_request("a", "long prefill", request, request.tokens)
    assert tested.choose(chat)[0] == "b", "13,500 tokens wait for their prefill at a"
    tested.fleet.end_request("a", "long prefill")
    assert tested.choose(chat)[0] == "a"


def test_expected_time_believes_replicas_that_say_how_fast_they_are():
    tested = TestedFleet("ab", policy="expected_time")
    tested.fleet.update_stats("a", {"prefill_tokens_per_s": 500, "others": "say other things"})
    tested.fleet.update_stats("b", {"prefill_tokens_per_s": "fast"})
    assert {tested.choose(f"{n} " + CHAT)[0] for n in range(4)} == {"b"}
