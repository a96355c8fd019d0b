"""The process that draws the pages ends with its gateway, however that ends."""

import signal
import urllib.request

import psutil
import pytest
from websockets.sync.client import connect

from support.gateway_process import gateway_process

KEYLESS = {"gateway": {"port": 0, "drain_s": 20}}


def visited(url, process):
    """The console's process, after the first visit."""
    with urllib.request.urlopen(f"{url}/console/workers", timeout=60) as answer:
        assert answer.status == 200
    [console] = psutil.Process(process.pid).children()
    return console


def test_it_ends_when_its_gateway_is_killed(tmp_path):
    with gateway_process(tmp_path, KEYLESS) as (url, process):
        console = visited(url, process)
        process.kill()
        process.wait(60)
        console.wait(60)
        assert not console.is_running()


@pytest.mark.slow
def test_a_page_that_is_open_does_not_hold_a_gateway_that_is_asked_to_stop(tmp_path):
    with gateway_process(tmp_path, KEYLESS) as (url, process):
        console = visited(url, process)
        socket = url.replace("http", "ws") + "/console/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
        with connect(socket, origin=url) as browser:
            browser.recv()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        console.wait(60)


@pytest.mark.slow
def test_one_that_died_is_begun_anew_with_the_next_visit(tmp_path):
    with gateway_process(tmp_path, KEYLESS) as (url, process):
        first = visited(url, process)
        first.kill()  # at once: the gateway has not heard of it yet
        assert visited(url, process).pid != first.pid


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "preload", "begins"),
    [
        ("127.0.0.1", None, True),
        ("127.0.0.1", False, False),
        ("0.0.0.0", None, False),
        ("0.0.0.0", True, True),
    ],
)
def test_it_begins_with_the_gateway_where_that_is_a_laptops(tmp_path, host, preload, begins, monkeypatch):
    monkeypatch.delenv("RADIXWAY__CONSOLE__PRELOAD", raising=False)
    gateway = {"port": 0, "drain_s": 1, "host": host, "insecure": True}
    tree = {"gateway": gateway, "console": {"preload": preload}}
    with gateway_process(tmp_path, tree) as (url, process):
        port = url.rpartition(":")[2]
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60).close()
        assert bool(psutil.Process(process.pid).children()) == begins
