"""A session is a tree of calls; each token that was sampled is trained on exactly once."""

from __future__ import annotations

from array import array
from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixway.core.work_slices import run_at_once
from radixway.trajectories import StoreFullError, TrajectoryStore
from radixway.trajectories.generate_replies import SampledTokens
from radixway.trajectories.sessions import (
    AgentSession,
    SessionExistsError,
    SessionRegistry,
    TooManySessionsError,
    make_samples,
)
from radixway.trajectories.token_records import sampled_spans
from support.conversations import Agents, Record, new_agents, tokenizer, user

TOOLS = [{"type": "function", "function": {"name": "clock"}}]


def check_against(agents: Agents, records: dict[str, Record]) -> None:
    """Samples are the engine's own record, and every sampled token is trained on once."""
    agents.session.check()
    agents.session.store.check()
    trained: list[str] = []
    for sample in run_at_once(make_samples(agents.session)):
        for part in sample.calls:
            record = records[part.id]
            own = slice(part.sampled_at, part.end)
            assert sample.tokens[: part.sampled_at] == record.prompt
            assert sample.tokens[own] == record.ids
            assert [-99 if one is None else one for one in sample.logprobs[own]] == [
                -99 if isnan(one) else one for one in record.logprobs
            ]
            assert sample.versions[own] == record.versions
            assert set(sample.loss_mask[own]) <= {int(part.trained)}
            assert sample.loss_mask[part.start : part.sampled_at] == [0] * (part.sampled_at - part.start)
            assert set(sample.versions[part.start : part.sampled_at]) <= {None}
            trained += [part.id] * part.trained
        lengths = {len(sample.tokens), len(sample.loss_mask), len(sample.logprobs), len(sample.versions)}
        assert lengths == {sample.calls[-1].end}
        assert [(span.start, span.end) for span in sample.spans] == [
            (before, span.end)
            for before, span in zip([0, *(s.end for s in sample.spans)], sample.spans, strict=False)
        ]
        for span in sample.spans:
            assert set(sample.loss_mask[span.start : span.end]) == {span.loss_mask}
    assert sorted(trained) == sorted(records)


def test_a_further_turn_hangs_below_the_answer_that_it_repeats() -> None:
    agents = new_agents()
    first = agents.call(user("Hello"))
    second = agents.call(*first.history(), user("And now?"))
    assert second.parent is first
    assert second.begin == first.end
    check_against(agents, agents.records)


def test_the_same_turn_twice_makes_siblings() -> None:
    agents = new_agents()
    first = agents.call(user("Hello"))
    asked = [*first.history(), user("And now?")]
    one, two = agents.call(*asked, says="It rains."), agents.call(*asked, says="It snows.")
    assert one.parent is two.parent is first
    check_against(agents, agents.records)


def test_siblings_that_sampled_the_same_are_each_trained_on() -> None:
    agents = new_agents()
    for _ in range(3):
        agents.call(user("Hello"), says="Hi!", logprob=-0.5)
    check_against(agents, agents.records)


def test_an_edited_answer_forks_below_the_last_answer_that_is_still_there() -> None:
    agents = new_agents()
    first = agents.call(user("Hello"))
    agents.call(*first.history(), user("And now?"), says="It rains.")
    edited = {"role": "assistant", "content": "It snows."}
    third = agents.call(*first.history(), user("And now?"), edited, user("Sure?"))
    assert third.parent is first
    check_against(agents, agents.records)


def test_another_system_prompt_tools_or_arguments_begin_another_conversation() -> None:
    agents = new_agents()
    first = agents.call({"role": "system", "content": "Be brief."}, user("Hello"))
    more = [*first.history()[1:], user("And now?")]
    assert agents.call({"role": "system", "content": "Be long."}, *more).parent is None
    assert agents.call(*first.history(), user("And now?"), tools=TOOLS).parent is None
    assert (
        agents.call(*first.history(), user("And now?"), arguments={"enable_thinking": False}).parent is None
    )
    check_against(agents, agents.records)


def test_a_shortened_history_begins_anew() -> None:
    agents = new_agents()
    first = agents.call(user("Hello"))
    second = agents.call(*first.history(), user("And now?"))
    assert agents.call(user("Summary: they greeted."), user("Go on.")).parent is None
    assert second.parent is first
    check_against(agents, agents.records)


def test_an_answer_cut_short_goes_on_from_its_last_token() -> None:
    agents = new_agents()
    first = agents.call(user("Hello"), says="Good", finish="length")
    second = agents.call(*first.history(), says=" day.", continues=True)
    assert second.begin == second.sampled_at == first.end
    assert second.history() == [user("Hello"), {"role": "assistant", "content": "Good day."}]
    third = agents.call(*second.history(), user("And now?"))
    assert third.parent is second
    check_against(agents, agents.records)


def test_versions_change_within_an_answer() -> None:
    agents = new_agents()
    agents.call(user("Hello"), says="one two three four", version="7", spans=[(0, 2, "6"), (2, 4, 7)])
    (sample,) = run_at_once(make_samples(agents.session))
    spans = [(span.source, span.version) for span in sample.spans]
    assert spans[:3] == [("prompt", None), ("sampled", "6"), ("sampled", 7)]
    check_against(agents, agents.records)


def test_samples_are_made_in_slices_of_what_there_was_at_first() -> None:
    agents = new_agents()
    agents.call(user("word " * 3000), says="one two three four")
    making = make_samples(agents.session)
    next(making)
    agents.session.release_tokens()  # such as when it is collected meanwhile
    slices = 1
    try:
        while True:
            next(making)
            slices += 1
    except StopIteration as done:
        (sample,) = done.value
    assert slices >= len(sample.tokens) // 4096 + 2
    with pytest.raises(ValueError, match="collected"):
        run_at_once(make_samples(agents.session))


def test_a_missing_log_probability_is_told() -> None:
    agents = new_agents()
    agents.call(user("Hello"), logprob=float("nan"))
    (sample,) = run_at_once(make_samples(agents.session))
    assert not sample.exact
    assert None in sample.logprobs
    assert "log-probability" in sample.deviations[0]


def test_tokens_that_another_session_sampled_are_only_a_prompt_here() -> None:
    store = TrajectoryStore()
    others, agents = new_agents(store, "others"), new_agents(store, "s")
    first = others.call(user("Hello"), says="Hi!", version="old")
    agents.call(user("Hello"), {"role": "assistant", "content": "Hi!"}, user("And now?"), says="It rains.")
    others.call(*first.history(), user("And now?"), says="It rains.", version="old")
    check_against(agents, agents.records)
    check_against(others, others.records)


def test_a_chain_of_many_turns_needs_no_recursion() -> None:
    agents = new_agents()
    call = agents.call(user("Hello"))
    token = tokenizer().encode("x", add_special_tokens=False)
    for _ in range(1100):
        turn = agents.session.start_call(
            call, token, tokenizer().token_bytes, frame=call.frame, model="m", messages=[user("x")]
        )
        said = SampledTokens(token, "x", array("f", [-1.0]), sampled_spans(1, 1), 1, None)
        answer = {"role": "assistant", "content": "x"}
        call, _ = agents.session.finish_call(
            turn, f"d{len(agents.session.calls)}", said, tokenizer().token_bytes, answer, "stop"
        )
    (sample,) = run_at_once(make_samples(agents.session))
    assert len(sample.calls) == 1101
    assert len(sample.messages) == 2 * 1101


def test_what_is_dropped_or_released_is_held_no_longer() -> None:
    agents = new_agents()
    session = agents.session
    first = agents.call(user("Hello"))
    prompt = tokenizer().encode("Never answered")
    turn = session.start_call(
        first, prompt, tokenizer().token_bytes, frame=b"", model="m", messages=[user("Never answered")]
    )
    session.drop_call(turn)
    session.drop_call(turn)
    session.release_tokens()
    session.store.clear()
    assert not session.turns


def test_a_full_store_refuses_and_keeps_what_it_has() -> None:
    agents = new_agents(TrajectoryStore(max_bytes=2**16))
    with pytest.raises(StoreFullError):
        for number in range(10_000):
            agents.call(user(f"{number} " * 50))
    last = agents.session.leaves[-1].id
    kept = {name: record for name, record in agents.records.items() if name in agents.session.calls}
    assert last in kept
    agents.session.check()
    check_against(agents, kept)


def test_sessions_are_bounded_and_finished_when_idle() -> None:
    book = SessionRegistry(TrajectoryStore(), max_sessions=2, idle_s=60)
    first, second = book.create_session("a", 0.0), book.create_session("b", 1.0)
    with pytest.raises(SessionExistsError):
        book.create_session("a", 2.0)
    with pytest.raises(TooManySessionsError):
        book.create_session("c", 2.0)
    book.touch_session(first, 50.0)
    assert book.finish_idle(70.0) == [second]
    assert [session.state for session in (first, second)] == ["open", "finished"]
    book.check()
    book.remove_session(second)
    assert isinstance(book.create_session("c", 71.0), AgentSession)
    book.check()


def test_collected_sessions_make_room_and_the_first_ones_are_forgotten() -> None:
    book = SessionRegistry(TrajectoryStore(), max_sessions=2, idle_s=60)
    for number in range(5):
        book.collect_session(book.create_session(str(number), 0.0))
        book.check()
    assert [session.id for session in book] == ["3", "4"]
    book.create_session("a", 1.0)
    book.create_session("b", 1.0)
    with pytest.raises(TooManySessionsError):
        book.create_session("c", 1.0)


def test_all_collected_sessions_are_remembered_where_a_file_keeps_them() -> None:
    book = SessionRegistry(TrajectoryStore(), max_sessions=2, idle_s=60, keeps_collected=True)
    for number in range(5):
        book.collect_session(book.create_session(str(number), 0.0))
    assert len(book) == 5
    book.check()


def test_a_call_that_is_taken_back_leaves_nothing() -> None:
    agents = new_agents()
    session = agents.session
    first = agents.call(user("Hello"))
    second = agents.call(user("Hello"), first.answer, user("And now?"))
    assert second.parent is first
    session.undo_call(second)
    session.check()
    assert session.leaves == [first]
    session.release_tokens()
    session.store.clear()


TEXTS = st.sampled_from(["Hi", "It rains", " and more", "42", "Ünï", "", "a b", "<think>"])


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_whatever_agents_do_each_sampled_token_is_trained_on_exactly_once(data: st.DataObject) -> None:
    agents = new_agents()
    calls = []
    for _ in range(data.draw(st.integers(1, 12))):
        history = data.draw(st.sampled_from(calls)).history() if calls and data.draw(st.booleans()) else []
        match data.draw(st.sampled_from(["next", "next", "edit", "cut", "again", "continue"])):
            case "edit" if history:
                at = data.draw(st.integers(0, len(history) - 1))
                history[at] = {**history[at], "content": data.draw(TEXTS) + "!"}
            case "cut" if history:
                history = history[data.draw(st.integers(0, len(history) - 1)) :]
            case "again" if history:
                history = history[:-1]
            case "continue" if history:
                history = [*history]
        continues = bool(history) and history[-1]["role"] == "assistant" and data.draw(st.booleans())
        if not continues and (not history or history[-1]["role"] == "assistant"):
            history = [*history, user(data.draw(TEXTS))]
        finish = data.draw(st.sampled_from(["stop", "stop", "length", "abort"]))
        says = data.draw(TEXTS) or ("x" if finish != "stop" else "")
        version = data.draw(st.sampled_from(["1", 2, "policy-b"]))
        logprob = data.draw(st.sampled_from([-0.5, -0.5, -2.0]))
        calls.append(
            agents.call(
                *history, says=says, finish=finish, version=version, logprob=logprob, continues=continues
            )
        )
    check_against(agents, agents.records)
    agents.session.release_tokens()
    agents.session.store.clear()
