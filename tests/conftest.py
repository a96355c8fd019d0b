"""Fixtures that every room may use."""

import socket

import pytest
from hypothesis import settings

# No test depends on how busy the machine is.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def one_encoder(tmp_path_factory):
    """The real encoder as it runs by default, loaded once; it is safe to share."""
    from radixway.config import EncodersSection
    from radixway.encoders import load_encoder

    return load_encoder(EncodersSection(home=tmp_path_factory.mktemp("encoders")))


def _find_port() -> int:
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


@pytest.fixture
def free_port() -> int:
    """A port of which the next one is free too, a moment ago."""
    return _find_port()


@pytest.fixture
def other_free_port(free_port: int) -> int:
    """One more, of which the next one is free too."""
    while abs((port := _find_port()) - free_port) < 2:
        pass
    return port
