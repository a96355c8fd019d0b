"""The books of one tier."""

from array import array

from radixway.engine.tiers.tier_index import TierIndex

WIDTH = 2


def key(text: str) -> bytes:
    """A page for each letter."""
    return b"".join(letter.encode() * WIDTH for letter in text)


def test_slots_are_given_for_what_is_not_there_yet() -> None:
    tier = TierIndex(8, WIDTH)
    assert tier.store_pages(key("abc"))[0] == 0
    start, slots = tier.store_pages(key("abde"))
    assert (start, len(slots)) == (2, 2)
    assert list(tier.find_slots(key("abdeX")))[2:] == list(slots)
    assert tier.num_pages == 5
    tier.check()


def test_who_comes_back_to_the_beginning_does_not_keep_the_rest() -> None:
    for use in (lambda tier: tier.find_slots(key("aX"), touch=True), lambda tier: tier.store_pages(key("a"))):
        tier = TierIndex(8, WIDTH)
        tier.store_pages(key("abcd"))
        tier.store_pages(key("efgh"))
        use(tier)
        tier.store_pages(key("ijk"))
        assert (len(tier.find_slots(key("abcd"))), len(tier.find_slots(key("efgh")))) == (1, 4)
        tier.check()


def test_a_prefix_larger_than_the_tier_is_kept_as_far_as_it_goes() -> None:
    tier = TierIndex(3, WIDTH)
    assert tier.store_pages(key("abcde")) == (0, array("i", [1, 2, 3]))
    assert tier.store_pages(key("abcde")) == (3, array("i"))
    assert len(tier.find_slots(key("abcde"))) == 3
    tier.check()


def test_what_is_forgotten_gives_its_slots_back_and_is_told() -> None:
    tier, told = TierIndex(6, WIDTH), []
    tier.leaving = told.extend
    _, slots = tier.store_pages(key("abcd"))
    tier.store_pages(key("abx"))
    tier.drop_page(key("abcd"), 2)
    assert told == list(slots[2:])
    assert len(tier.find_slots(key("abcd"))) == 2 and len(tier.find_slots(key("abx"))) == 3
    tier.drop_page(key("zzz"), 1)
    tier.check()
