"""Who is known, and who is a candidate for which model."""

from radixway.core.config import WorkerSettings
from radixway.routing import LoadLedger, WorkerRegistry, WorkerState


def test_only_ready_workers_that_serve_the_model_are_candidates():
    registry = WorkerRegistry()
    a = registry.add_worker(WorkerSettings(url="http://a", models=("x", "y")))
    b = registry.add_worker(WorkerSettings(url="http://b", models=("y",)))
    assert registry.candidates("y") == ()
    registry.set_state(a, WorkerState.READY)
    registry.set_state(b, WorkerState.READY)
    assert registry.candidates("y") == (a, b)
    assert registry.candidates("x") == (a,)
    assert registry.candidates(None) == (a, b)
    registry.set_state(a, WorkerState.DRAINING)
    assert registry.candidates("x") == ()
    registry.remove_worker("http://b/")
    assert registry.candidates("y") == ()
    assert registry.known_models() == {"x", "y"}


def test_a_url_with_and_without_slash_is_one_worker_and_readding_keeps_its_load():
    registry = WorkerRegistry()
    worker = registry.add_worker(WorkerSettings(url="http://a/"))
    LoadLedger().reserve(worker)
    again = registry.add_worker(WorkerSettings(url="http://a", models=("m",), max_batch_size=4))
    assert again is worker
    assert len(registry) == 1
    assert (worker.load.requests, worker.models, worker.max_batch_size) == (1, ("m",), 4)


def test_unknown_models_do_not_grow_the_registry():
    registry = WorkerRegistry()
    for n in range(1000):
        assert registry.candidates(f"model-{n}") == ()
    assert not registry._candidates
