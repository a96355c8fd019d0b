"""`--model` is checked before an engine is started; nothing heavy is imported to say that there is none."""

import http.server
import json
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from radixway.cli.model_check import ModelUnavailableError, check_model


@contextmanager
def hub(status):
    """A hub that answers every request with `status`. Yields its URL and the paths asked for."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def constants(monkeypatch, tmp_path):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return constants


def refusal(model):
    with pytest.raises(ModelUnavailableError) as error:
        check_model(model)
    return str(error.value)


@pytest.mark.parametrize("name", ["bundled", "smollm2"])
def test_what_ships_needs_no_look(name):
    check_model(name)


def test_a_directory_with_a_model_and_a_gguf_file_are_taken(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    check_model(str(tmp_path))
    file = tmp_path / "model.gguf"
    file.touch()
    check_model(str(file))


def test_a_directory_without_a_model_and_another_file_are_refused(tmp_path):
    assert "has no config.json" in refusal(str(tmp_path))
    file = tmp_path / "notes.txt"
    file.touch()
    assert "GGUF" in refusal(str(file))


def test_near_names_are_told(tmp_path, constants):
    assert refusal("bundeld").endswith("; did you mean bundled?")
    assert "did you mean radixway-guide?" in refusal("radixway-gide")
    for name in ("tiny-llama", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    assert f"did you mean {tmp_path}/tiny-llama?" in refusal(f"{tmp_path}/tiny-lama").replace(
        f"{tmp_path}/tiny-llama or {tmp_path}/other", f"{tmp_path}/tiny-llama"
    )


def test_a_cached_model_is_taken_and_named(tmp_path, constants, monkeypatch):
    (tmp_path / "cache/models--Qwen--Qwen3-0.6B/snapshots").mkdir(parents=True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    check_model("Qwen/Qwen3-0.6B")
    told = refusal("Qwen/Qwen3-0.6BB")
    assert "HF_HUB_OFFLINE" in told and told.endswith("did you mean Qwen/Qwen3-0.6B?")


@pytest.mark.parametrize("status", [401, 404])
def test_what_the_hub_does_not_have_is_refused(constants, monkeypatch, status):
    with hub(status) as (url, asked):
        monkeypatch.setattr(constants, "ENDPOINT", url)
        assert str(status) in refusal("no/such-model") and asked == ["/api/models/no/such-model"]


@pytest.mark.parametrize("status", [200, 500])
def test_what_the_hub_has_or_cannot_tell_now_is_left_to_the_engine(constants, monkeypatch, status):
    with hub(status) as (url, asked):
        monkeypatch.setattr(constants, "ENDPOINT", url)
        check_model("some/model")
        assert asked == ["/api/models/some/model"]


def test_a_hub_out_of_reach_is_told(constants, monkeypatch, free_port):
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{free_port}")
    assert "out of reach" in refusal("some/model")


def test_a_wrong_model_is_refused_before_anything_heavy_is_imported():
    code = (
        "import json, sys\n"
        "from radixway.cli import app\n"
        "try: app(['up', '--model', '/no/such/model'])\n"
        "except SystemExit as end: code = end.code\n"
        "print(json.dumps([code, sorted({'torch', 'fastapi', 'uvicorn'} & set(sys.modules))]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert json.loads(ran.stdout.splitlines()[-1]) == [2, []] and "/no/such/model" in ran.stderr
