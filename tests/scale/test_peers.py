"""Merging what other gateways say: losses, doubles, reordering, restarts, and one that vanishes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.routing import Share
from radixway.scale.load_sync import BadMessage, Letters, Message, Peers

URLS = ("http://a", "http://b", "http://c")


@st.composite
def shares(draw):
    requests, done, sent = (draw(st.integers(0, 50)) for _ in range(3))
    prefilling = draw(st.integers(0, requests))
    silent, tokens = draw(st.integers(0, prefilling)), draw(st.integers(0, 9000))
    return Share(
        requests + done, requests, prefilling, silent, tokens, tokens + sent, draw(st.integers(0, 99))
    )


@st.composite
def histories(draw, gateway="g"):
    """All that one gateway says, in its order."""
    contents = draw(
        st.lists(st.tuples(st.booleans(), st.dictionaries(st.sampled_from(URLS), shares())), min_size=1)
    )
    return [Message(1, gateway, "", n, full, said) for n, (full, said) in enumerate(contents)]


@st.composite
def deliveries(draw):
    """A history, and what of it arrives: some messages lost, some twice, in any order."""
    history = draw(histories())
    return draw(st.lists(st.sampled_from(history), max_size=2 * len(history)))


def latest(heard: list[Message], url: str) -> Share:
    """The rule in one line, by looking at everything that was ever heard."""
    said = [message for message in heard if message.full or url in message.shares]
    return max(said, key=lambda message: message.sequence).shares.get(url, Share()) if said else Share()


@given(deliveries())
def test_the_latest_message_heard_decides_whatever_came_in_between(arriving):
    peers, heard = Peers("me", 3.0), []
    for message in arriving:
        before = {url: peers.elsewhere(url) for url in URLS}
        changed = peers.hear(message, now=0.0)
        heard.append(message)
        peers.check()
        for url in URLS:
            assert peers.elsewhere(url) == latest(heard, url)
            assert (url in changed) == (peers.elsewhere(url) != before[url])


@given(deliveries(), st.dictionaries(st.sampled_from(URLS), shares()))
def test_one_full_message_heals_everything(arriving, truth):
    peers = Peers("me", 3.0)
    for message in arriving:
        peers.hear(message, 0.0)
    peers.hear(Message(1, "g", "", 10_000, True, truth), 0.0)
    for message in reversed(arriving):  # stragglers
        peers.hear(message, 0.0)
    assert {url: peers.elsewhere(url) for url in URLS} == {url: truth.get(url, Share()) for url in URLS}


@given(histories("g"), histories("h"))
def test_gateways_add_up(some, others):
    peers = Peers("me", 3.0)
    for message in [*some, *others]:
        peers.hear(message, 0.0)
    for url in URLS:
        mine, theirs = latest(some, url), latest(others, url)
        expected = tuple(a + b for a, b in zip(mine, theirs, strict=True))
        assert tuple(peers.elsewhere(url)) == expected


def test_a_restarted_gateway_begins_anew_and_its_former_life_is_forgotten():
    peers = Peers("me", 3.0)
    peers.hear(Message(1, "first life", "n", 900, True, {"http://a": Share(7, 7)}), now=0.0)
    peers.hear(Message(1, "second life", "n", 0, True, {"http://a": Share(1, 1)}), now=2.0)
    assert peers.elsewhere("http://a").requests == 8
    assert peers.forget_silent(3.0) == {"http://a"}
    assert peers.elsewhere("http://a") == Share(1, 1)


def test_a_gateway_that_vanishes_leaves_nothing_and_may_come_back():
    peers = Peers("me", 3.0)
    said = Message(1, "g", "n", 5, True, {"http://a": Share(2, 2), "http://b": Share()})
    peers.hear(said, now=0.0)
    assert peers.forget_silent(2.9) == set()
    assert peers.forget_silent(3.0) == {"http://a"}
    assert len(peers) == 0 and peers.elsewhere("http://a") == Share()
    assert peers.hear(Message(1, "g", "n", 9, False, {"http://a": Share(3, 1)}), now=9.0) == {"http://a"}
    assert peers.elsewhere("http://a") == Share(3, 1)


def test_a_good_bye_takes_the_load_away_at_once_and_stragglers_do_not_bring_it_back():
    peers = Peers("me", 3.0)
    late = Message(1, "g", "n", 1, False, {"http://a": Share(2, 2)})
    peers.hear(late, 0.0)
    assert peers.hear(Message(1, "g", "n", 2, True, {}), 0.0) == {"http://a"}
    assert peers.hear(late, 0.0) == set()
    assert peers.elsewhere("http://a") == Share()


def test_own_messages_that_come_back_are_nothing():
    peers = Peers("me", 3.0)
    assert peers.hear(Message(1, "me", "n", 0, True, {"http://a": Share(2, 2)}), 0.0) == set()
    assert len(peers) == 0


def test_missed_messages_are_counted():
    peers = Peers("me", 3.0)
    for sequence in (4, 5, 9):
        peers.hear(Message(1, "g", "n", sequence, False, {}), 0.0)
    (peer,) = peers
    assert (peer.messages, peer.missed) == (3, 3)


def test_there_are_only_so_many_gateways():
    peers = Peers("me", 3.0)
    for number in range(1000):
        peers.hear(Message(1, f"g{number}", "n", 0, True, {"http://a": Share(1, 1)}), 0.0)
    assert peers.elsewhere("http://a").requests == len(peers) <= 256


@given(histories(), st.sampled_from([None, "a key of sixteen characters"]))
def test_messages_arrive_as_they_were_sent(history, key):
    letters = Letters(key)
    for message in history:
        assert letters.read(letters.write(message)) == message


@given(st.binary(max_size=200), st.sampled_from([None, "a key of sixteen characters"]))
def test_bytes_of_any_kind_are_a_message_or_a_bad_message(data, key):
    with suppress(BadMessage):
        Letters(key).read(data)


GOOD = Message(1, "g", "n", 0, True, {"http://a": Share(3, 2, 1, 0, 10, 20, 5)})


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (Letters().write(GOOD)[:-1], "truncated"),
        (Letters().write(GOOD) + b"\0", "trailing"),
        (Letters().write(Message(2, "g", "n", 0, True, {})), "version 2"),
        (Letters().write(Message(1, "", "n", 0, True, {})), "length"),
        (Letters().write(Message(1, "g", "n", -1, True, {})), ">= 0"),
        (Letters().write(Message(1, "g", "n", 0, True, {"http://a": Share(3, -1)})), "http://a"),
        (Letters().write(Message(1, "g", "n", 0, True, {"http://a": Share(3, 4)})), "http://a"),
        (Letters().write(Message(1, "g", "n", 0, True, {"http://a": Share(2**60)})), "http://a"),
        (b"\0" * (5 * 2**20), "bytes"),
    ],
)
def test_a_bad_message_says_what_is_wrong_with_it(written, why):
    with pytest.raises(BadMessage, match=why):
        Letters().read(written)


def test_with_a_key_only_messages_sealed_with_it_count():
    ours, theirs = Letters("our key, which is long"), Letters("their key, which is long")
    assert ours.read(ours.write(GOOD)) == GOOD
    for data in (theirs.write(GOOD), Letters().write(GOOD), ours.write(GOOD)[:-1], b""):
        with pytest.raises(BadMessage, match="key"):
            ours.read(data)


def test_a_gateway_that_names_workers_without_end_is_not_remembered_without_end():
    peers = Peers("me", 10.0)
    for n in range(50):
        said = {f"http://{n}-{i}": Share(1, 1) for i in range(500)}
        peers.hear(Message(1, "g", "", n, False, said), 0.0)
    (peer,) = peers
    assert len(peer.shares) == 10_000
    assert peers.elsewhere("http://0-0") == Share(1, 1)
    for n in (50, 51):  # the first full message makes room, the next one is heard as a whole
        peers.hear(Message(1, "g", "", n, True, {"http://new": Share(2, 2)}), 0.0)
    assert peers.elsewhere("http://new") == Share(2, 2)
    assert len(peer.shares) == 1
    peers.check()
