"""Sessions and attempts, by a clock of the test's."""

from radixway.console.sign_in import SignInSession, SignInSessions


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def test_a_session_lasts_for_as_long_as_something_is_done():
    clock = Clock()
    sign_ins = SignInSessions(60, clock)
    token = sign_ins.create_session("key")
    for _ in range(3):
        clock.now += 50
        assert sign_ins.find_session(token).key == "key"
    clock.now += 50
    assert sign_ins.find_session(token, active=False) is not None
    clock.now += 11
    assert sign_ins.find_session(token) is None


def test_one_that_is_over_has_forgotten_its_key_and_says_so_to_its_connections():
    clock = Clock()
    sign_ins = SignInSessions(60, clock)
    session = sign_ins.find_session(sign_ins.create_session("a secret"))
    assert "a secret" not in repr(session)
    told = []
    session.on_end.append(lambda: told.append(True))
    clock.now += 61
    assert sign_ins.is_over(session)
    assert session.key is None and told == [True]


def test_who_needs_no_key_is_never_signed_out():
    clock = Clock()
    clock.now += 10**6
    assert not SignInSessions(60, clock).is_over(SignInSession(None, 0.0))


def test_unknown_tokens_find_nobody():
    assert SignInSessions(60, Clock()).find_session("x") is None
    assert SignInSessions(60, Clock()).find_session(None) is None
