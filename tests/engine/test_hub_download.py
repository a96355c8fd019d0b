"""Models from a hub: fetched once, with the share of bytes and files told on the way."""

from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest

from radixway.engine.errors import ModelNotFoundError
from radixway.engine.model_loader import find_model
from support.hub import hub

FILES = {
    "config.json": b"{}",
    "model.safetensors": bytes(3_000_000),
    "tokenizer.json": b"[]" * 1000,
    "pytorch_model.bin": bytes(5_000_000),
}
BYTES = "downloading some/model: 3.0 MB"
NAMES = "downloading some/model: 3 files"

Told = list[tuple[str, float]]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A hub with one model, and nothing of it here."""
    with hub("some/model", FILES) as url:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", url)
        template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        yield


def test_a_download_tells_the_share_of_its_bytes_and_files(capfd: pytest.CaptureFixture[str]) -> None:
    told: Told = []
    path = find_model("some/model", progress=lambda what, share: told.append((what, share)))
    assert sorted(file.name for file in path.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert (path / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    for stage in (BYTES, NAMES):
        shares = [share for what, share in told if what == stage]
        assert shares == sorted(set(shares)) and shares[0] == 0 and shares[-1] == 1
    assert len([what for what, _ in told if what == NAMES]) == 1 + 3
    assert capfd.readouterr() == ("", ""), "the client's own bars are not shown"


def test_only_what_is_missing_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    path = find_model("some/model")
    (path / "tokenizer.json").resolve().unlink()
    (path / "tokenizer.json").unlink()
    told: Told = []
    assert find_model("some/model", progress=lambda what, share: told.append((what, share))) == path
    assert (path / "tokenizer.json").exists()
    assert {what for what, _ in told[1:]} == {
        "downloading some/model: 2.0 kB",
        "downloading some/model: 1 file",
    }
    told.clear()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert find_model("some/model", progress=lambda what, share: told.append((what, share))) == path
    assert [what for what, _ in told] == ["looking for some/model"], "nothing was missing"


def test_a_download_can_be_stopped_and_goes_on_later() -> None:
    class Stopped(Exception):
        pass

    def stop(what: str, share: float) -> None:
        if share > 0:
            raise Stopped

    with pytest.raises(Stopped):
        find_model("some/model", progress=stop)
    assert (find_model("some/model") / "model.safetensors").stat().st_size == 3_000_000


def test_a_model_that_the_hub_does_not_have_is_not_found() -> None:
    with pytest.raises(ModelNotFoundError, match="nobody/nothing"):
        find_model("nobody/nothing", progress=lambda what, share: None)
