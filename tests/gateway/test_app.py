"""Building a gateway opens nothing; one that cannot start leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from radixway.core.config import ConfigError, load_config
from radixway.core.http import CannotListenError, bind_tcp
from radixway.gateway.app import Gateway

_MUCH = {
    "workers": [{"url": "http://127.0.0.1:9"}],
    "guard": {"enabled": True},
    "semantic_cache": {"enabled": True},
    "encoders": {"backend": "numpy", "preload": True},
    "trajectories": {"enabled": True},
    "tenants": {"acme": {"rates": {"requests_per_minute": 5}}},
}


def gateway(**sections: Any) -> Gateway:
    return Gateway(load_config(overrides=_MUCH | sections))


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_building_one_opens_no_file_and_no_thread_and_needs_no_loop(tmp_path: Path) -> None:
    sections = {
        "trajectories": {"enabled": True, "sessions": {"path": str(tmp_path / "sessions")}},
        "ext_proc": {"enabled": True, "port": 0},
        "scale": {"sync": {"bind": "tcp://127.0.0.1:*", "peers": ["tcp://127.0.0.1:9"]}, "planner": {}},
    }
    gateway(**sections)  # imports what it needs
    before = open_files(), threading.active_count()
    gateway(**sections)
    assert (open_files(), threading.active_count()) == before
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:radixway.pipeline:DeprecationWarning")
def test_an_old_path_of_a_middleware_is_logged_with_the_new_one(caplog: pytest.LogCaptureFixture) -> None:
    gateway(pipeline={"middlewares": ["radixway.pipeline.retry.Retry"]})
    messages = [record.getMessage() for record in caplog.records if "is now" in record.getMessage()]
    assert messages == [
        "pipeline.middlewares: radixway.pipeline.retry.Retry is now radixway.core.pipeline.retry.Retry"
    ]


async def test_one_that_cannot_start_leaves_no_task_and_no_encoder(tmp_path: Path) -> None:
    broken = tmp_path / "sessions"
    broken.write_text("no database")
    with bind_tcp("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListenError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with gateway(ext_proc={"enabled": True, "port": port}).running():
                raise AssertionError("it does not run")
    with pytest.raises(ConfigError, match=r"trajectories\.sessions\.path"):
        async with gateway(trajectories={"enabled": True, "sessions": {"path": str(broken)}}).running():
            raise AssertionError("it does not run")
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("radixway-encoder")]
