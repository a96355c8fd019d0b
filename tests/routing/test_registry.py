"""Who is known, and who is a candidate for which model."""

from radixway.config import WorkerSection
from radixway.routing import Ledger, Registry, WorkerState


def test_only_ready_workers_that_serve_the_model_are_candidates():
    registry = Registry()
    a = registry.add(WorkerSection(url="http://a", models=("x", "y")))
    b = registry.add(WorkerSection(url="http://b", models=("y",)))
    assert registry.candidates("y") == ()
    registry.set_state(a, WorkerState.READY)
    registry.set_state(b, WorkerState.READY)
    assert registry.candidates("y") == (a, b)
    assert registry.candidates("x") == (a,)
    assert registry.candidates(None) == (a, b)
    registry.set_state(a, WorkerState.DRAINING)
    assert registry.candidates("x") == ()
    registry.remove("http://b/")
    assert registry.candidates("y") == ()
    assert registry.models() == {"x", "y"}


def test_a_url_with_and_without_slash_is_one_worker_and_readding_keeps_its_load():
    registry = Registry()
    worker = registry.add(WorkerSection(url="http://a/"))
    Ledger().reserve(worker)
    again = registry.add(WorkerSection(url="http://a", models=("m",), max_batch_size=4))
    assert again is worker
    assert len(registry) == 1
    assert (worker.load.requests, worker.models, worker.max_batch_size) == (1, ("m",), 4)


def test_unknown_models_do_not_grow_the_registry():
    registry = Registry()
    for n in range(1000):
        assert registry.candidates(f"model-{n}") == ()
    assert not registry._candidates
