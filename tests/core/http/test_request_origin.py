"""Where requests come from, as their headers tell."""

import pytest

from radixway.core.http import HttpError, OriginCheck
from radixway.core.http.request_origin import (
    ForeignHostError,
    is_loopback,
    may_change,
    proxy_header,
)


def scope(method="POST", path="/", kind="http", client="127.0.0.1", **headers):
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": kind, "method": method, "path": path, "client": (client, 1), "headers": named}


def is_refused(check: OriginCheck, **said) -> bool:
    try:
        check.check_site(scope(**said))
    except HttpError as error:
        assert error.code == "cross_site_request"
        return True
    return False


@pytest.mark.parametrize(
    ("origin", "host", "refused"),
    [
        ("http://localhost:30000", "localhost:30000", False),
        ("http://LOCALHOST:30000", "localhost:30000", False),
        ("https://models.example", "models.example", False),
        ("http://localhost:5173", "localhost:30000", True),
        ("http://localhost", "localhost:30000", True),
        ("https://models.example.evil.example", "models.example", True),
        ("https://models.example@evil.example", "models.example", True),
        ("null", "localhost:30000", True),
        ("", "localhost:30000", True),
        ("http://[", "localhost:30000", True),
        ("http://localhost:30000", "", True),
    ],
)
def test_a_page_is_of_the_site_that_it_was_asked_under(origin, host, refused):
    assert is_refused(OriginCheck(), origin=origin, host=host) is refused
    assert OriginCheck().is_cross_site(scope(method="GET", origin=origin, host=host)) is refused


@pytest.mark.parametrize(("site", "refused"), [("cross-site", True), ("same-site", True), ("none", False)])
def test_without_an_origin_the_browser_says_where_the_page_is(site, refused):
    assert is_refused(OriginCheck(), sec_fetch_site=site) is refused
    assert is_refused(OriginCheck(), kind="websocket", method="GET", sec_fetch_site=site) is refused
    assert is_refused(OriginCheck(), method="GET", path="/flush_cache", sec_fetch_site=site) is refused
    assert not is_refused(OriginCheck(), method="GET", sec_fetch_site=site)


def test_what_is_no_browser_says_nothing_and_passes():
    assert not is_refused(OriginCheck())


@pytest.mark.parametrize("header", ["authorization", "x_api_key", "trustedclient"])
def test_what_brings_a_key_is_not_known_by_its_address(header):
    assert not is_refused(OriginCheck(), origin="https://app.example", host="a", **{header: "Bearer hush"})


def test_names_and_sites_may_be_given():
    check = OriginCheck(hosts=["Models.example"], origins=["https://app.example"])
    assert not is_refused(check, origin="https://models.example", host="127.0.0.1:30000")
    assert not is_refused(check, origin="https://app.example", host="127.0.0.1:30000")
    assert check.is_cross_site(scope(origin="https://app.example", host="127.0.0.1:30000"))
    assert not check.has_foreign_host(scope(host="models.example:8443"))
    assert check.has_foreign_host(scope(host="other.example"))
    assert not is_refused(OriginCheck(origins=["*"]), origin="https://any.example", host="a")


@pytest.mark.parametrize(
    ("host", "foreign"),
    [
        ("localhost:30000", False),
        ("a.localhost", False),
        ("127.0.0.1:30000", False),
        ("[::ffff:127.0.0.1]:1", False),
        ("gateway:80", False),
        ("", False),
        ("[", False),
        ("rebound.example:30000", True),
        ("127.0.0.1.rebound.example", True),
        ("LOCALHOST.rebound.example.", True),
        ("localhost.", False),
    ],
)
def test_another_site_may_have_a_name_with_a_dot(host, foreign):
    assert OriginCheck().has_foreign_host(scope(host=host)) is foreign


def test_only_what_comes_from_the_loopback_may_have_been_led_here():
    for client in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"):
        assert is_loopback(scope(client=client))
        with pytest.raises(ForeignHostError, match=r"'rebound\.example'.*set a key"):
            OriginCheck().check_host(scope(client=client, host="rebound.example"))
    assert not is_loopback(scope(client="10.0.0.1")) and not is_loopback({"client": None})
    OriginCheck().check_host(scope(client="10.0.0.1", host="models.example"))


@pytest.mark.parametrize("header", ["x_forwarded_for", "forwarded", "x_real_ip", "x_forwarded_proto"])
def test_proxies_say_that_they_are_there(header):
    assert proxy_header(scope(**{header: "x"})) == header.replace("_", "-")


def test_a_gateway_is_no_proxy():
    assert proxy_header(scope()) is None
    assert proxy_header(scope(via="1.1 radixway-0123456789ab, 1.1 radixway-ba9876543210")) is None
    assert proxy_header(scope(via="1.1 caddy, 1.1 radixway-0123456789ab")) == "via"


def test_what_only_shows_changes_nothing():
    assert not any(may_change(scope(method=method)) for method in ("GET", "HEAD", "OPTIONS"))
    assert all(may_change(scope(method=method)) for method in ("POST", "PUT", "PATCH", "DELETE"))
