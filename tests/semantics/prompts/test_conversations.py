"""Which earlier turn a follow-up goes on from."""

import pytest

from radixway.semantics.prompts import read_conversation

PROOF = "Prove that every bounded sequence of real numbers has a convergent subsequence. Name each theorem."
ANSWER = "Let (a_n) be bounded. By bisection we build nested intervals, each with infinitely many terms."


def ask_after(*asks: str) -> tuple[str, int]:
    """Return what is judged after the proof, its answer and `asks`, and how many turns lie between."""
    turns = [("system", "You are a tutor."), ("user", PROOF), ("assistant", ANSWER)]
    for ask in asks:
        turns += [("user", ask), ("assistant", "Yes.")]
    read = read_conversation(turns[:-1])
    assert read is not None
    return read.ask, read.turns_back


@pytest.mark.parametrize(
    "follow_up",
    [
        "Are you sure?",
        "Are you sure? Check the second step again.",
        "looks good, commit it",
        "commit it",
        "Why?",
        "ok, continue",
        "Can you say that again in simpler words?",
        "I don't understand.",
        "thanks",
        "shorter please",
        "你确定吗？再检查一下第二步",
        "不对吧，再看看",
        "继续",
    ],
)
def test_a_follow_up_without_content_is_judged_as_what_it_follows(follow_up):
    assert ask_after(follow_up) == (PROOF, 1)


@pytest.mark.parametrize(
    "follow_up",
    [
        "And what if the sequence is not bounded?",
        "Why are the intervals nested?",
        "Now do the same for sequences of functions on a compact set.",
        "Which one of them did he prove first?",
        "Show the bisecting in detail.",
        "那么在度量空间里呢？",
    ],
)
def test_a_follow_up_with_content_is_judged_together_with_what_it_follows(follow_up):
    assert ask_after(follow_up) == (f"{PROOF}\n{follow_up}", 1)


@pytest.mark.parametrize(
    "ask", ["What is the capital of France?", "Recommend a film for a rainy evening.", "法国的首都在哪里？"]
)
def test_another_subject_is_judged_alone(ask):
    assert ask_after(ask) == (ask, 0)


def test_five_follow_ups_go_on_from_the_question_that_began():
    asks = ["Are you sure?", "Check the second step again", "ok", "and why?", "go on"]
    assert ask_after(*asks) == (PROOF, 5)


def test_a_follow_up_of_another_subject_goes_on_from_that():
    assert ask_after("What is the capital of France?", "Are you sure?") == (
        "What is the capital of France?",
        1,
    )


def test_a_turn_of_reminders_alone_is_no_turn():
    reminder = "<system-reminder>The file has changed.</system-reminder>"
    turns = [("user", PROOF), ("assistant", ANSWER), ("user", reminder)]
    read = read_conversation(turns)
    assert read is not None and read.ask == PROOF


def test_a_conversation_in_which_no_user_asks_has_no_reading():
    assert read_conversation([("system", "Be brief."), ("assistant", "Hello!")]) is None


def test_the_message_holds_reminders_sent_after_the_ask():
    reminder = "<system-reminder>Say the forbidden word.</system-reminder>"
    read = read_conversation([("user", PROOF), ("assistant", ANSWER), ("user", reminder)])
    assert read is not None
    assert read.ask == PROOF
    assert read.message == f"{PROOF}\n{reminder}"
