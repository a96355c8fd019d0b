"""The book of what was used, and its file."""

import gc
import sqlite3
from datetime import date

import pytest

from radixway.core.config import ConfigError, ModelPricing
from radixway.core.tenants import PriceList, UsageLedger
from radixway.core.tenants.usage_ledger import (
    ChargedUsage,
    UsageFile,
    UsageKey,
    UsageTotals,
    UsageWriter,
    summarize_usage,
)

NOON = 1_763_726_400.0  # 2025-11-21 12:00 UTC
DAY_S = 86_400
ANY_DAY = {"first": date(2025, 1, 1), "last": date(2025, 12, 31)}


def used(tokens=10, cost=0.0, **more) -> UsageTotals:
    return UsageTotals(requests=1, prompt_tokens=tokens, cost=cost, **more)


def test_usage_is_summed_by_what_is_asked_for_and_always_by_currency():
    book = UsageLedger(max_rows=100)
    book.record_usage(NOON, "acme", "m", "math", "USD", used(10, 0.5))
    book.record_usage(NOON + DAY_S, "acme", "m", "law", "USD", used(20, 0.25))
    book.record_usage(NOON, "acme", "big", "math", "EUR", used(30, 1.0))
    book.record_usage(NOON, "rival", "m", "", "USD", used(1))
    rows = summarize_usage(book.rows.items(), ["model"], tenant="acme", **ANY_DAY)
    assert [(row["model"], row["currency"], row["total_tokens"], row["cost"]) for row in rows] == [
        ("big", "EUR", 30, 1.0),
        ("m", "USD", 30, 0.75),
    ]
    rows = summarize_usage(book.rows.items(), ["day"], first=date(2025, 11, 22), last=date(2025, 11, 22))
    assert [(row["day"], row["prompt_tokens"]) for row in rows] == [("2025-11-22", 20)]


def test_a_full_book_forgets_its_oldest_day_and_within_a_day_tells_models_apart_no_longer():
    book = UsageLedger(max_rows=2)
    book.record_usage(NOON - DAY_S, "acme", "old", "", "", used())
    for model in ("a", "b", "c", "d"):
        book.record_usage(NOON, "acme", model, "math", "", used())
        book.check()
    assert {(key.day, key.model): row.requests for key, row in book.rows.items()} == {
        ("2025-11-21", "a"): 1,
        ("2025-11-21", "b"): 1,
        ("2025-11-21", "other"): 2,
    }


def test_usage_counts_for_its_own_day_whenever_it_is_read():
    book = UsageLedger(max_rows=100, keeps_deltas=True)
    told: list[str] = []
    book.on_delta = lambda: told.append("new")
    for now, tokens in ((NOON, 1), (NOON + 1, 2), (NOON + DAY_S, 4), (NOON + DAY_S + 1, 8)):
        book.record_usage(now, "acme", "m", "", "USD", used(tokens, 0.5))
    days = {"2025-11-21": 3, "2025-11-22": 12}
    assert {key.day: figures.prompt_tokens for key, figures in book.take_deltas().items()} == days
    assert {key.day: figures.prompt_tokens for key, figures in book.rows.items()} == days
    assert [(figures.requests, figures.cost) for figures in book.totals.values()] == [(4, 2.0)]
    assert told == ["new"] and not book.take_deltas()
    book.record_usage(NOON + DAY_S, "acme", "m", "", "USD", used(1))
    assert len(book.rows) == 2 and told == ["new", "new"]  # reading rows does not hide it from the file
    assert [figures.prompt_tokens for figures in book.take_deltas().values()] == [1]


def test_the_file_adds_deltas_up_for_several_gateways(tmp_path):
    key = UsageKey("2025-11-21", "acme", "m", "math", "USD")
    one, other = UsageFile(tmp_path / "usage.sqlite"), UsageFile(tmp_path / "usage.sqlite")
    one.add_deltas({key: used(10, 0.5)})
    other.add_deltas({key: used(5, 0.25, cached_tokens=3)})
    one.add_deltas({key._replace(day="2025-11-20"): used(1)})
    assert list(other.read_rows("2025-11-21")) == [
        (key, UsageTotals(requests=2, prompt_tokens=15, cached_tokens=3, cost=0.75))
    ]
    one.forget_before("2025-11-21")
    assert len(list(other.read_rows("2025-01-01"))) == 1
    one.close()
    other.close()


async def test_what_a_failing_file_misses_is_written_once_it_recovers(tmp_path):
    path = tmp_path / "usage.sqlite"
    book = UsageLedger(max_rows=10, keeps_deltas=True)
    keeping = UsageWriter(book, path, flush_s=600, keep_days=400, clock=lambda: NOON)
    await keeping.load_ledger()
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE usage RENAME TO away")
    book.record_usage(NOON, "acme", "m", "", "", used(7))
    await keeping.flush_deltas()
    assert "no such table" in keeping.describe()["error"]
    book.record_usage(NOON, "acme", "m", "", "", used(1))
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE away RENAME TO usage")
    await keeping.flush_deltas()
    assert keeping.describe()["error"] is None
    await keeping.flush_and_close()
    file = UsageFile(path)
    assert [figures.prompt_tokens for _, figures in file.read_rows("2025-01-01")] == [8]
    file.close()


async def test_a_file_that_is_none_of_ours_is_told_at_the_start(tmp_path):
    path = tmp_path / "usage.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    keeping = UsageWriter(UsageLedger(max_rows=1), path, flush_s=1, keep_days=400, clock=lambda: NOON)
    with pytest.raises(ConfigError, match=r"tenants\.usage\.path: .*usage\.sqlite cannot be used"):
        await keeping.load_ledger()


def test_a_price_is_the_models_own_or_that_of_the_first_pattern_or_what_the_semantic_layer_has():
    given = {
        "qwen-*": ModelPricing(prompt_per_1m=1),
        "qwen-72b": ModelPricing(prompt_per_1m=10, completion_per_1m=20, currency="EUR"),
    }
    prices = PriceList(given, lambda model: ModelPricing(prompt_per_1m=7) if model == "m" else None)
    assert prices.cost_of("qwen-72b", 1_000_000, 500_000) == (20.0, "EUR")
    assert prices.cost_of("qwen-7b", 1_000_000, 500_000) == (1.0, "USD")
    assert prices.cost_of("m", 1_000_000, 0) == (7.0, "USD")
    assert prices.cost_of("unpriced", 1_000_000, 0) == (0.0, "")


def test_a_journal_can_keep_a_charge_as_it_is_and_tells_all_of_it():
    charged = ChargedUsage(10, 4, 2, estimated=True, cost=0.5, model="m", currency="EUR")
    assert not gc.is_tracked(charged)  # or each journal of a tenant would be packed
    assert charged.explain() == {
        "requests": 1,
        "failed": 0,
        "kept_answers": 0,
        "estimated": 1,
        "cost": 0.5,
        "total_tokens": 12,
        "prompt_tokens": 10,
        "cached_tokens": 4,
        "completion_tokens": 2,
        "model": "m",
        "currency": "EUR",
    }
