"""What pages of other sites can do to an engine through their visitors' browsers: nothing."""

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="session")

ELSEWHERE = "https://elsewhere.example"
CHANGES = [
    ("POST", "/flush_cache"),
    ("GET", "/flush_cache"),
    ("POST", "/pause_generation"),
    ("POST", "/continue_generation"),
    ("POST", "/abort_request"),
    ("POST", "/update_weights_from_disk"),
    ("POST", "/update_weight_version"),
    ("POST", "/v1/chat/completions"),
    ("PUT", "/generate"),
]
READS = ["/v1/models", "/server_info", "/get_model_info", "/cached_prefixes", "/metrics", "/weight_version"]


@pytest.mark.parametrize(("method", "path"), CHANGES)
async def test_a_page_of_another_site_changes_nothing(served, method, path):
    for headers in ({"origin": ELSEWHERE}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        answer = await served.http.request(method, path, content=b"{}", headers=headers)
        assert answer.status_code == 403, answer.text
        assert answer.json()["error"]["code"] == "cross_site_request"


@pytest.mark.parametrize("path", READS)
async def test_a_page_under_a_name_that_was_led_here_reads_nothing(served, path):
    answer = await served.http.get(path, headers={"host": "rebound.example:30001"})
    assert answer.status_code == 403 and "--api-key" in answer.text


async def test_probes_may_ask_under_any_name(served):
    for path in ("/health", "/ready"):
        assert (await served.http.get(path, headers={"host": "engine.example"})).status_code == 200


async def test_what_is_no_page_of_another_site_may_change_it(served):
    for headers in ({}, {"origin": served.url}, {"sec-fetch-site": "none"}, {"host": "localhost:1"}):
        answer = await served.http.post("/flush_cache", headers=headers)
        assert answer.status_code == 200, answer.text
