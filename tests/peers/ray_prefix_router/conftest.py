"""A real Ray for the cases whose tree is an actor."""

import shutil
import tempfile

import pytest
import ray


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ported(source, case): the original of a ported case")


@pytest.fixture(scope="module")
def running_ray():
    folder = tempfile.mkdtemp(prefix="rw", dir="/tmp")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        _temp_dir=folder,
    )
    yield
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
