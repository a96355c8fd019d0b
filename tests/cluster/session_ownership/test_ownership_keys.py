"""Which gateway a name leads to, where a request belongs, and what is said of one that is passed on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.cluster.session_ownership.ownership_keys import GatewayFleet, OwnershipKeys
from radixway.cluster.session_ownership.signed_hop import HopSigner, InvalidHopSignatureError
from radixway.core.config import ConfigError, load_config

KEY = "a key of sixteen characters"
URLS = [f"http://10.0.0.{number}:30000" for number in range(1, 6)]


@given(st.text(min_size=1))
def test_all_gateways_agree_on_the_owner_of_a_name(name):
    owners = {
        GatewayFleet(url, order).find_owner(name) for url, order in ((URLS[0], URLS), (URLS[3], URLS[::-1]))
    }
    assert len(owners) == 1


def test_a_gateway_that_leaves_moves_its_own_names_alone():
    before, after = GatewayFleet(URLS[0], URLS), GatewayFleet(URLS[0], URLS[:-1])
    names = [f"session {number}" for number in range(2000)]
    moved = [name for name in names if before.find_owner(name) != after.find_owner(name)]
    assert {before.find_owner(name) for name in moved} == {URLS[-1]}
    shares = [sum(before.find_owner(name) == url for name in names) for url in URLS]
    assert min(shares) > 300


def test_a_name_that_a_gateway_draws_is_its_own():
    for url in URLS:
        fleet = GatewayFleet(url, URLS)
        assert all(fleet.find_owner(fleet.make_owned_name()) == url for _ in range(20))


def scope(path, method="POST", headers=(), client=("10.1.1.1", 5)):
    return {"path": path, "method": method, "headers": list(headers), "query_string": b"", "client": client}


def test_a_seal_holds_for_its_request_its_key_and_its_minute():
    now = [1000.0]
    mine, others = HopSigner(KEY, lambda: now[0]), HopSigner("another key of sixteen", lambda: now[0])
    value = mine.sign_hop(scope("/sessions/a")).encode()
    assert mine.verify_hop(scope("/sessions/a"), value) == ("10.1.1.1", 0)
    for wrong in (b"", b"x", value + b"0", value.replace(b"10.1.1.1", b"127.0.0.1")):
        with pytest.raises(InvalidHopSignatureError):
            mine.verify_hop(scope("/sessions/a"), wrong)
    with pytest.raises(InvalidHopSignatureError):
        mine.verify_hop(scope("/sessions/b"), value)
    with pytest.raises(InvalidHopSignatureError):
        others.verify_hop(scope("/sessions/a"), value)
    now[0] += 61
    with pytest.raises(InvalidHopSignatureError, match="clocks"):
        mine.verify_hop(scope("/sessions/a"), value)


@pytest.mark.parametrize(
    ("path", "body", "headers", "name"),
    [
        ("/sessions/a%20b/v1/messages", b"{", (), "a b"),
        ("/sessions", b'{"id": "s"}', (), "s"),
        ("/sessions", b"", (), None),
        ("/free", b'{"request_id": "r"}', (), "r"),
        ("/free", b'{"request_id": 7}', (), None),
        ("/free", b"[" * 100_000, (), None),
        ("/generate", b'{"session_id": "s"}', (), "s"),
        ("/generate", b"{}", [(b"x-session-id", b"h")], "h"),
        ("/generate", b"\xff", (), None),
    ],
)
def test_where_a_request_belongs_is_said_by_its_path_or_body(path, body, headers, name):
    bound = OwnershipKeys().find_owned(scope(path, headers=headers), body)
    assert (None if bound is None else bound.name) == name


def test_where_nothing_is_recorded_conversations_may_go_anywhere():
    assert not OwnershipKeys(conversations=False).may_be_owned(scope("/generate"))
    assert OwnershipKeys(conversations=False).may_be_owned(scope("/sessions/a", "GET"))


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"self_url": URLS[0], "all": URLS[1:], "key": KEY}, "not among"),
        ({"self_url": URLS[0], "all": [URLS[0], URLS[0]], "key": KEY}, "twice"),
        ({"self_url": "10.0.0.1", "all": URLS, "key": KEY}, "address"),
        ({"self_url": URLS[0], "all": URLS, "key": "short"}, "16"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(given, word):
    with pytest.raises(ConfigError, match=word):
        load_config(overrides={"scale": {"gateways": given}})
