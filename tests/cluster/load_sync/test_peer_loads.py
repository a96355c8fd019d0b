"""Merging what other gateways say: losses, doubles, reordering, restarts, and one that vanishes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.cluster.load_sync.peer_loads import PeerLoads
from radixway.cluster.load_sync.transport import InvalidSyncMessageError, SyncMessage, SyncMessageCodec
from radixway.routing import LoadShare

URLS = ("http://a", "http://b", "http://c")


@st.composite
def shares(draw):
    requests, done, sent = (draw(st.integers(0, 50)) for _ in range(3))
    prefilling = draw(st.integers(0, requests))
    silent, tokens = draw(st.integers(0, prefilling)), draw(st.integers(0, 9000))
    return LoadShare(
        requests + done, requests, prefilling, silent, tokens, tokens + sent, draw(st.integers(0, 99))
    )


@st.composite
def histories(draw, gateway="g"):
    """All that one gateway says, in its order."""
    contents = draw(
        st.lists(st.tuples(st.booleans(), st.dictionaries(st.sampled_from(URLS), shares())), min_size=1)
    )
    return [SyncMessage(1, gateway, "", n, full, said) for n, (full, said) in enumerate(contents)]


@st.composite
def deliveries(draw):
    """A history, and what of it arrives: some messages lost, some twice, in any order."""
    history = draw(histories())
    return draw(st.lists(st.sampled_from(history), max_size=2 * len(history)))


def latest(heard: list[SyncMessage], url: str) -> LoadShare:
    """The rule in one line, by looking at everything that was ever heard."""
    said = [message for message in heard if message.full or url in message.shares]
    return (
        max(said, key=lambda message: message.sequence).shares.get(url, LoadShare()) if said else LoadShare()
    )


@given(deliveries())
def test_the_latest_message_heard_decides_whatever_came_in_between(arriving):
    peers, heard = PeerLoads("me", 3.0), []
    for message in arriving:
        before = {url: peers.total_share_at(url) for url in URLS}
        changed = peers.receive_message(message, now=0.0)
        heard.append(message)
        peers.check()
        for url in URLS:
            assert peers.total_share_at(url) == latest(heard, url)
            assert (url in changed) == (peers.total_share_at(url) != before[url])


@given(deliveries(), st.dictionaries(st.sampled_from(URLS), shares()))
def test_one_full_message_heals_everything(arriving, truth):
    peers = PeerLoads("me", 3.0)
    for message in arriving:
        peers.receive_message(message, 0.0)
    peers.receive_message(SyncMessage(1, "g", "", 10_000, True, truth), 0.0)
    for message in reversed(arriving):  # stragglers
        peers.receive_message(message, 0.0)
    assert {url: peers.total_share_at(url) for url in URLS} == {
        url: truth.get(url, LoadShare()) for url in URLS
    }


@given(histories("g"), histories("h"))
def test_gateways_add_up(some, others):
    peers = PeerLoads("me", 3.0)
    for message in [*some, *others]:
        peers.receive_message(message, 0.0)
    for url in URLS:
        mine, theirs = latest(some, url), latest(others, url)
        expected = tuple(a + b for a, b in zip(mine, theirs, strict=True))
        assert tuple(peers.total_share_at(url)) == expected


def test_a_restarted_gateway_begins_anew_and_its_former_life_is_forgotten():
    peers = PeerLoads("me", 3.0)
    peers.receive_message(
        SyncMessage(1, "first life", "n", 900, True, {"http://a": LoadShare(7, 7)}), now=0.0
    )
    peers.receive_message(SyncMessage(1, "second life", "n", 0, True, {"http://a": LoadShare(1, 1)}), now=2.0)
    assert peers.total_share_at("http://a").requests == 8
    assert peers.drop_silent(3.0) == {"http://a"}
    assert peers.total_share_at("http://a") == LoadShare(1, 1)


def test_a_gateway_that_vanishes_leaves_nothing_and_may_come_back():
    peers = PeerLoads("me", 3.0)
    said = SyncMessage(1, "g", "n", 5, True, {"http://a": LoadShare(2, 2), "http://b": LoadShare()})
    peers.receive_message(said, now=0.0)
    assert peers.drop_silent(2.9) == set()
    assert peers.drop_silent(3.0) == {"http://a"}
    assert len(peers) == 0 and peers.total_share_at("http://a") == LoadShare()
    assert peers.receive_message(
        SyncMessage(1, "g", "n", 9, False, {"http://a": LoadShare(3, 1)}), now=9.0
    ) == {"http://a"}
    assert peers.total_share_at("http://a") == LoadShare(3, 1)


def test_a_good_bye_takes_the_load_away_at_once_and_stragglers_do_not_bring_it_back():
    peers = PeerLoads("me", 3.0)
    late = SyncMessage(1, "g", "n", 1, False, {"http://a": LoadShare(2, 2)})
    peers.receive_message(late, 0.0)
    assert peers.receive_message(SyncMessage(1, "g", "n", 2, True, {}), 0.0) == {"http://a"}
    assert peers.receive_message(late, 0.0) == set()
    assert peers.total_share_at("http://a") == LoadShare()


def test_own_messages_that_come_back_are_nothing():
    peers = PeerLoads("me", 3.0)
    assert (
        peers.receive_message(SyncMessage(1, "me", "n", 0, True, {"http://a": LoadShare(2, 2)}), 0.0) == set()
    )
    assert len(peers) == 0


def test_missed_messages_are_counted():
    peers = PeerLoads("me", 3.0)
    for sequence in (4, 5, 9):
        peers.receive_message(SyncMessage(1, "g", "n", sequence, False, {}), 0.0)
    (peer,) = peers
    assert (peer.messages, peer.missed) == (3, 3)


def test_there_are_only_so_many_gateways():
    peers = PeerLoads("me", 3.0)
    for number in range(1000):
        peers.receive_message(SyncMessage(1, f"g{number}", "n", 0, True, {"http://a": LoadShare(1, 1)}), 0.0)
    assert peers.total_share_at("http://a").requests == len(peers) <= 256


@given(histories(), st.sampled_from([None, "a key of sixteen characters"]))
def test_messages_arrive_as_they_were_sent(history, key):
    letters = SyncMessageCodec(key)
    for message in history:
        assert letters.decode_message(letters.encode_message(message)) == message


@given(st.binary(max_size=200), st.sampled_from([None, "a key of sixteen characters"]))
def test_bytes_of_any_kind_are_a_message_or_a_bad_message(data, key):
    with suppress(InvalidSyncMessageError):
        SyncMessageCodec(key).decode_message(data)


GOOD = SyncMessage(1, "g", "n", 0, True, {"http://a": LoadShare(3, 2, 1, 0, 10, 20, 5)})


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (SyncMessageCodec().encode_message(GOOD)[:-1], "truncated"),
        (SyncMessageCodec().encode_message(GOOD) + b"\0", "trailing"),
        (SyncMessageCodec().encode_message(SyncMessage(2, "g", "n", 0, True, {})), "version 2"),
        (SyncMessageCodec().encode_message(SyncMessage(1, "", "n", 0, True, {})), "length"),
        (SyncMessageCodec().encode_message(SyncMessage(1, "g", "n", -1, True, {})), ">= 0"),
        (
            SyncMessageCodec().encode_message(
                SyncMessage(1, "g", "n", 0, True, {"http://a": LoadShare(3, -1)})
            ),
            "http://a",
        ),
        (
            SyncMessageCodec().encode_message(
                SyncMessage(1, "g", "n", 0, True, {"http://a": LoadShare(3, 4)})
            ),
            "http://a",
        ),
        (
            SyncMessageCodec().encode_message(
                SyncMessage(1, "g", "n", 0, True, {"http://a": LoadShare(2**60)})
            ),
            "http://a",
        ),
        (b"\0" * (5 * 2**20), "bytes"),
    ],
)
def test_a_bad_message_says_what_is_wrong_with_it(written, why):
    with pytest.raises(InvalidSyncMessageError, match=why):
        SyncMessageCodec().decode_message(written)


def test_with_a_key_only_messages_sealed_with_it_count():
    ours, theirs = SyncMessageCodec("our key, which is long"), SyncMessageCodec("their key, which is long")
    assert ours.decode_message(ours.encode_message(GOOD)) == GOOD
    for data in (
        theirs.encode_message(GOOD),
        SyncMessageCodec().encode_message(GOOD),
        ours.encode_message(GOOD)[:-1],
        b"",
    ):
        with pytest.raises(InvalidSyncMessageError, match="key"):
            ours.decode_message(data)


def test_a_gateway_that_names_workers_without_end_is_not_remembered_without_end():
    peers = PeerLoads("me", 10.0)
    for n in range(50):
        said = {f"http://{n}-{i}": LoadShare(1, 1) for i in range(500)}
        peers.receive_message(SyncMessage(1, "g", "", n, False, said), 0.0)
    (peer,) = peers
    assert len(peer.shares) == 10_000
    assert peers.total_share_at("http://0-0") == LoadShare(1, 1)
    for n in (50, 51):  # the first full message makes room, the next one is heard as a whole
        peers.receive_message(SyncMessage(1, "g", "", n, True, {"http://new": LoadShare(2, 2)}), 0.0)
    assert peers.total_share_at("http://new") == LoadShare(2, 2)
    assert len(peer.shares) == 1
    peers.check()
