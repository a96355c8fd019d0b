"""Fixtures that every room may use."""

import gc
import os
from functools import lru_cache

import fastapi.dependencies.models
import pytest
from hypothesis import settings

from radixway.core.config import radixway_home
from support.free_ports import find_port

# No test depends on how busy the machine is, hence no deadlines.
settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=200)
settings.load_profile("quick")

# Gateways in processes of their own need no console beside them until a test visits it.
os.environ.setdefault("RADIXWAY__CONSOLE__PRELOAD", "false")

# The collector would look at all that thousands of tests import and leave behind, again and again.
gc.set_threshold(100_000, 20, 20)


def pytest_collection_finish(session):
    gc.collect()
    gc.freeze()
    for item in session.items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(1100))


@pytest.fixture(autouse=True, scope="module")
def no_gateway_outlives_its_tests():
    """FastAPI remembers callables by the thousand, and with our routes' all that these close over."""
    yield
    for each in vars(fastapi.dependencies.models).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()


@pytest.fixture(autouse=True, scope="module")
def home_of_the_module(tmp_path_factory):
    """A file's gateways keep their data in a directory of their own, but for what is made of encoders.

    They would find the chats, users and logs of whoever runs the tests, and open that database at each start.
    """
    home = tmp_path_factory.mktemp("home")
    encoders = tmp_path_factory.getbasetemp().parent / "encoders"
    encoders.mkdir(exist_ok=True)
    (home / "encoders").symlink_to(encoders)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RADIXWAY_HOME", str(home))
        yield


@pytest.fixture(autouse=True, scope="session")
def encoders_are_loaded_once():
    """Each gateway would load its own, which takes most of a second of a core's time."""
    from radixway.semantics.encoders import factory

    read = factory.load_encoder
    kept = lru_cache(maxsize=2)(lambda _, config: read(config))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            factory,
            "load_encoder",
            lambda config: kept((radixway_home() / "encoders").resolve(), config),
        )
        yield


@pytest.fixture(scope="session")
def one_encoder(tmp_path_factory):
    """The real encoder as it runs by default, loaded once; it is safe to share."""
    from radixway.core.config import EncodersConfig
    from radixway.semantics.encoders import load_encoder

    return load_encoder(EncodersConfig(home=tmp_path_factory.mktemp("encoders")))


@pytest.fixture
def free_port() -> int:
    """A port of which the next one is free too, a moment ago."""
    return find_port()


@pytest.fixture
def other_free_port() -> int:
    """One more, of which the next one is free too."""
    return find_port()
