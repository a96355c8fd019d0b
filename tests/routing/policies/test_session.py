"""Sessions and their workers: bounded, ended by time, and counted right whatever happens."""

from hypothesis import given
from hypothesis import strategies as st

from radixway.routing.policies.session import SessionBindings
from support.routing_requests import workers

TTL_S, MOST = 10.0, 4
NAMES = st.sampled_from("abcdefg")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("bind"), NAMES, st.integers(0, 2), st.floats(0, 6)),
        st.tuples(st.just("finish"), NAMES),
        st.tuples(st.just("forget"), st.integers(0, 2)),
    ),
    max_size=60,
)


@given(STEPS)
def test_whatever_happens_bonds_agree_with_a_plain_list(steps):
    fleet, bonds, now = workers(3), SessionBindings(TTL_S, MOST), 0.0
    model = {}
    for step, *given_ in steps:
        if step == "bind":
            name, number, later = given_
            now += later
            bonds.bind_session(name, fleet[number], now)
            model.pop(name, None)
            model[name] = (fleet[number], now + TTL_S)
            model = {key: bond for key, bond in model.items() if bond[1] > now}
            model = dict(list(model.items())[-MOST:])
        elif step == "finish":
            assert bonds.release_session(given_[0]) == (model.pop(given_[0], None) is not None)
        else:
            bonds.release_worker(fleet[given_[0]])
            model = {key: bond for key, bond in model.items() if bond[0] is not fleet[given_[0]]}
        bonds.check()
        assert len(bonds) == len(model)
        for name in "abcdefg":
            assert bonds.find_worker(name, now) is model.get(name, (None,))[0]
        for worker in fleet:
            assert bonds.count_sessions(worker) == sum(bound is worker for bound, _ in model.values())


def test_a_session_is_not_found_once_its_time_is_over():
    (worker,) = workers(1)
    bonds = SessionBindings(TTL_S, MOST)
    bonds.bind_session("s", worker, now=0.0)
    assert bonds.find_worker("s", now=9.9) is worker
    assert bonds.find_worker("s", now=10.0) is None
