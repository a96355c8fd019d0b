"""What outlives routers, and how they hear of each other."""

from radixway.cluster.prefix_router.prefix_record import (
    UNKNOWN_AFTER_S,
    PrefixRecord,
    RouterReport,
    pack_blocks,
    unpack_blocks,
)
from radixway.cluster.prefix_router.prefix_tiers import PrefixSettings


class Recorded:
    """A record on a clock of the test's."""

    def __init__(self, life="first life", **settings):
        self.now = 0.0
        self.record = PrefixRecord(life, PrefixSettings(**settings), lambda: self.now)

    def tell(self, router, *uses, gone=(), replicas=None):
        packed = [(replica, pack_blocks(blocks)) for replica, blocks in uses]
        self.record.apply_report(RouterReport(router, packed, list(gone), replicas))
        self.record.check()

    def hear(self, router, since, life="first life"):
        """`(upto, uses, all)`, or None."""
        news = self.record.updates_since(router, life, since)
        if news is None:
            return None
        return news.upto, [(replica, unpack_blocks(packed)) for replica, packed in news.uses], news.all


def test_routers_hear_what_others_told_and_not_what_they_said_themselves():
    recorded = Recorded()
    recorded.tell("one", ("a", [1, 2]))
    recorded.tell("two", ("b", [3]))
    recorded.tell("one", ("a", [1, 2, 4]))
    assert recorded.hear("one", 0) == (3, [("b", [3])], False)
    assert recorded.hear("two", 0) == (3, [("a", [1, 2]), ("a", [1, 2, 4])], False)
    assert recorded.hear("two", 1) == (3, [("a", [1, 2, 4])], False)
    assert recorded.hear("two", 3) is None


def test_a_new_router_hears_everything():
    recorded = Recorded()
    recorded.tell("one", ("a", [1, 2]), ("b", [7]), ("a", [1, 2, 3]))
    upto, uses, everything = recorded.hear("new", 0, life=None)
    assert (upto, everything) == (3, True)
    assert uses == [("a", [1, 2, 3]), ("b", [7])]


def test_who_has_not_listened_for_long_hears_everything():
    recorded = Recorded()
    for number in range(70):
        recorded.tell("one", ("a", list(range(1000 * number, 1000 * number + 1000))))
    assert recorded.hear("two", 60)[2] is False
    upto, uses, everything = recorded.hear("two", 0)
    assert (upto, everything, len(uses)) == (70, True, 70)


def test_who_knows_another_life_hears_everything():
    recorded = Recorded("second life")
    recorded.tell("one", ("a", [1]))
    assert recorded.hear("two", 1, life="first life") == (1, [("a", [1])], True)


def test_of_those_who_died_nothing_is_believed_any_more():
    recorded = Recorded()
    recorded.tell("one", ("a", [1]), ("b", [2]))
    recorded.tell("one", gone=["a"])
    recorded.tell("two", ("a", [1, 5]))
    assert recorded.record.seen.replicas == ("b",)


def test_replicas_that_are_no_more_are_forgotten_and_those_that_one_router_has_not_seen_yet_are_not():
    recorded = Recorded()
    recorded.tell("one", ("old", [1]))
    recorded.now += UNKNOWN_AFTER_S + 1
    recorded.tell("two", ("new", [2]))
    recorded.tell("one", replicas=["other"])
    assert recorded.record.seen.replicas == ("new",)


def test_memory_is_bounded():
    recorded = Recorded(max_chars=1_000_000)
    for number in range(22):
        recorded.tell("one", (f"replica {number % 7}", list(range(1000 * number, 1000 * number + 1000))))
    assert 1_000_000 // 64 - 7 * 1000 < len(recorded.record.seen) <= 1_000_000 // 64


def test_limits_may_change():
    recorded = Recorded()
    recorded.tell("one", ("a", list(range(40_000))))
    recorded.record.apply_settings(PrefixSettings(max_chars=1_000_000))
    recorded.record.check()
    assert len(recorded.record.seen) == 1_000_000 // 64
