"""Who says that a worker belongs to the fleet, and what becomes of it when nobody does any more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.config import WorkerSettings
from radixway.routing import API, DiscoveredWorker, FleetMembership, LoadLedger, WorkerRegistry, WorkerState

A, B = "http://10.0.0.1:8000", "http://10.0.0.2:8000"


def found(*urls, draining=False):
    return [DiscoveredWorker(WorkerSettings(url=url), draining) for url in urls]


class House:
    def __init__(self):
        self.registry = WorkerRegistry()
        self.members = FleetMembership(self.registry)

    def states(self):
        return {worker.url: worker.state.value for worker in self.registry}

    def ready(self, *urls):
        for url in urls:
            self.registry.set_state(self.registry.get_worker(url), WorkerState.READY)


@pytest.fixture
def house():
    house = House()
    yield house
    house.members.check()


def test_workers_appear_and_vanish_as_their_source_says(house):
    house.members.set_members("dns", found(A, B))
    assert house.states() == {A: "joining", B: "joining"}
    house.members.set_members("dns", found(B))
    assert house.states() == {B: "joining"}
    assert house.registry.get_worker(B).sources == ("dns",)
    assert house.members.changes == {"appeared": 2, "drained": 0, "returned": 0, "vanished": 1}


def test_one_that_vanishes_with_requests_in_hand_drains_first(house):
    house.members.set_members("dns", found(A))
    house.ready(A)
    lease = LoadLedger().reserve(house.registry.get_worker(A))
    house.members.set_members("dns", [])
    house.members.remove_drained()
    assert house.states() == {A: "draining"}
    lease.release()
    house.members.remove_drained()
    assert house.states() == {}


def test_one_that_comes_back_while_it_leaves_stays(house):
    house.members.set_members("dns", found(A))
    lease = LoadLedger().reserve(house.registry.get_worker(A))
    house.members.set_members("dns", [])
    house.members.set_members("dns", found(A))
    lease.release()
    house.members.remove_drained()
    assert house.states() == {A: "joining"}
    assert house.members.changes["returned"] == 1


def test_a_draining_worker_stays_listed_and_comes_back_when_it_drains_no_more(house):
    house.members.set_members("kubernetes", found(A))
    house.ready(A)
    house.members.set_members("kubernetes", found(A, draining=True))
    house.members.remove_drained()
    assert house.states() == {A: "draining"}
    house.members.set_members("kubernetes", found(A))
    assert house.states() == {A: "joining"}


def test_one_that_drains_as_it_is_first_heard_of_is_not_taken_in(house):
    house.members.set_members("kubernetes", found(A, draining=True))
    assert house.states() == {}
    house.members.set_members("kubernetes", found(A))
    assert house.states() == {A: "joining"}


def test_one_that_is_named_twice_drains_only_if_it_does_both_times(house):
    for both in ([*found(A), *found(A, draining=True)], [*found(A, draining=True), *found(A)]):
        house.members.set_members("kubernetes", both)
        assert house.states() == {A: "joining"}


def test_a_worker_stays_while_anybody_names_it(house):
    house.members.set_members("dns", found(A))
    house.members.join_worker(API, WorkerSettings(url=A))
    assert house.registry.get_worker(A).sources == ("dns", API)
    house.members.set_members("dns", found(A, draining=True))
    house.members.set_members("dns", [])
    assert house.states() == {A: "joining"}
    house.members.remove_member(API, A)
    assert house.states() == {}


def test_who_alone_wanted_it_to_go_on_leaves_and_it_drains(house):
    house.members.set_members("kubernetes", found(A))
    house.members.add_member("registered", *found(A))
    house.members.set_members("kubernetes", found(A, draining=True))
    assert house.states() == {A: "joining"}
    house.members.remove_member("registered", A)
    assert house.states() == {A: "draining"}


def test_one_that_leaves_and_is_named_as_draining_belongs_to_its_new_source(house):
    house.members.join_worker(API, WorkerSettings(url=A))
    lease = LoadLedger().reserve(house.registry.get_worker(A))
    house.members.remove_member(API, A)
    house.members.set_members("kubernetes", found(A, draining=True))
    lease.release()
    house.members.remove_drained()
    assert house.states() == {A: "draining"}
    house.members.set_members("kubernetes", [])
    assert house.states() == {}


def test_the_same_set_again_leaves_alone_what_an_administrator_did(house):
    house.members.set_members("dns", found(A, B))
    house.registry.set_state(house.registry.get_worker(A), WorkerState.DRAINING)
    house.registry.remove_worker(B)
    house.members.set_members("dns", found(A, B))
    assert house.states() == {A: "draining"}
    house.members.join_worker(API, WorkerSettings(url=A))
    assert house.states() == {A: "joining"}


def test_a_removed_worker_that_a_call_had_added_is_its_sources_alone_again(house):
    house.members.join_worker(API, WorkerSettings(url=A))
    house.registry.remove_worker(A)
    house.members.set_members("dns", found(A))
    house.members.set_members("dns", [])
    assert house.states() == {}


def test_new_particulars_reach_a_worker_that_is_known(house):
    house.members.set_members("registered", found(A))
    house.members.set_members("registered", [DiscoveredWorker(WorkerSettings(url=A, max_batch_size=4))])
    assert house.registry.get_worker(A).max_batch_size == 4


URLS = st.sampled_from([A, B, "http://10.0.0.3:8000"])
SETS = st.lists(st.builds(DiscoveredWorker, st.builds(WorkerSettings, url=URLS), st.booleans()), max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("tell"), st.sampled_from(["dns", "kubernetes"]), SETS),
    st.tuples(st.sampled_from(["join", "leave"]), st.just(API), URLS),
    st.tuples(st.sampled_from(["remove", "reserve", "release", "retire"]), st.none(), URLS),
)


@given(st.lists(STEPS, max_size=30))
def test_whatever_happens_who_is_named_is_there_and_who_is_not_leaves_when_idle(steps):
    house, ledger, leases = House(), LoadLedger(), []
    for verb, source, what in steps:
        worker = house.registry.get_worker(what) if isinstance(what, str) else None
        if verb == "tell":
            house.members.set_members(source, what)
        elif verb == "join":
            house.members.join_worker(source, WorkerSettings(url=what))
        elif verb == "leave":
            house.members.remove_member(source, what)
        elif verb == "retire":
            house.members.remove_drained()
        elif verb == "release" and leases:
            leases.pop().release()
        elif verb == "reserve" and worker is not None:
            leases.append(ledger.reserve(worker))
        elif verb == "remove":
            house.registry.remove_worker(what)
        house.members.check()
    for lease in leases:
        lease.release()
    house.members.remove_drained()
    assert all(worker.sources for worker in house.registry)
