"""Fixtures that every room may use."""

import pytest
from hypothesis import settings

from free_ports import find_port

# No test depends on how busy the machine is, hence no deadlines.
settings.register_profile("quick", deadline=None, max_examples=40)
settings.register_profile("thorough", deadline=None, max_examples=200)
settings.load_profile("quick")


@pytest.fixture(scope="session")
def one_encoder(tmp_path_factory):
    """The real encoder as it runs by default, loaded once; it is safe to share."""
    from radixway.config import EncodersSection
    from radixway.encoders import load_encoder

    return load_encoder(EncodersSection(home=tmp_path_factory.mktemp("encoders")))


@pytest.fixture
def free_port() -> int:
    """A port of which the next one is free too, a moment ago."""
    return find_port()


@pytest.fixture
def other_free_port() -> int:
    """One more, of which the next one is free too."""
    return find_port()
