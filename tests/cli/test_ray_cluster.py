"""`radixway ray`: each command does its work at the cluster, and says what is wrong in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from radixway.cli import app


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ray cluster that is there and has no application."""
    pytest.importorskip("ray")
    from ray import serve
    from ray.serve.schema import ServeStatus

    from radixway.gateway.ray_serve import application

    @contextmanager
    def connected(address: str | None) -> Iterator[None]:
        yield

    monkeypatch.setattr(application, "connect_ray", connected)
    monkeypatch.setattr(serve, "status", lambda: ServeStatus(target_capacity=None, applications={}))


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("action", ["status", "delete"])
def test_an_application_that_is_not_there_is_named(action: str) -> None:
    ran = CliRunner().invoke(app, ["ray", action, "--name", "mine"])
    assert ran.exit_code == 2
    assert "there is no application 'mine' in this cluster" in ran.stderr


@pytest.mark.usefixtures("cluster")
def test_a_deployment_that_fails_ends_in_rays_words(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray import serve

    def fail(**options: object) -> None:
        raise RuntimeError("no node has room for a replica")

    monkeypatch.setattr(serve, "start", fail)
    ran = CliRunner().invoke(app, ["ray", "deploy"])
    assert ran.exit_code == 2 and "no node has room for a replica" in ran.stderr
