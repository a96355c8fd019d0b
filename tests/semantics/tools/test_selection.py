"""Which tools a query gets, and why."""

import numpy as np
import pytest
from msgspec import Raw

from radixway.core.config.semantic import ClassicTools
from radixway.semantics.tools import ToolDefinition, ToolLimits, select_tools, tool_limits

WEATHER = ToolDefinition("get_weather", Raw(b"{}"), "Current weather and forecast for any place", "weather")
EMAIL = ToolDefinition("send_email", Raw(b"{}"), "Send an email message to somebody", "communication")
STOCKS = ToolDefinition("stock_price", Raw(b"{}"), "Quotes of shares at the exchange", "finance")
TABLE = ToolDefinition("book_table", Raw(b"{}"), "Reserve a table at a restaurant", "travel")
FEW = (WEATHER, EMAIL, STOCKS, TABLE)


@pytest.fixture
def choose(index_of, encoders):
    async def choose(query, limits, tools=FEW, called=()):
        index = await index_of(*tools)
        return select_tools(
            index, index.score_tools((await encoders.encode(query)).vector, query), limits, called
        )

    return choose


def names(selection):
    return [each.name for each in selection.chosen]


async def test_the_tool_that_a_query_wants_comes_first(choose):
    assert names(await choose("Will it rain in Oslo tomorrow?", ToolLimits(1))) == ["get_weather"]
    assert names(await choose("Write to Anna that I am late", ToolLimits(1))) == ["send_email"]
    assert names(await choose("What is one share of Apple worth?", ToolLimits(1))) == ["stock_price"]


async def test_at_most_top_k_the_best_first(choose):
    selection = await choose("Mail me the weather forecast", ToolLimits(2, min_score=-1))
    assert len(selection.chosen) == 2
    assert selection.chosen[0].score >= selection.chosen[1].score
    assert selection.best == selection.chosen[0].score


async def test_what_is_not_good_enough_is_not_offered(choose):
    selection = await choose("Why did Rome fall?", ToolLimits(4, min_score=0.3))
    assert selection.chosen == () and selection.best < 0.3


async def test_the_published_threshold_is_a_cosine_with_the_description(choose):
    query = "Current weather and forecast for any place"
    assert names(await choose(query, ToolLimits(4, -1, min_cosine=0.999))) == ["get_weather"]
    assert (await choose("Why did Rome fall?", ToolLimits(4, -1, min_cosine=0.5))).chosen == ()


async def test_only_tools_of_the_wanted_categories(choose):
    limits = ToolLimits(4, -1, categories=frozenset({"finance", "travel"}))
    assert set(names(await choose("Will it rain?", limits))) == {"stock_price", "book_table"}


async def test_tools_that_were_called_stay_once_each(choose):
    limits = ToolLimits(1, min_score=0.2)
    selection = await choose("Will it rain?", limits, called={"send_email", "get_weather", "unknown"})
    assert names(selection) == ["get_weather"]
    assert selection.numbers == (0, 1)


async def test_examples_move_a_tool_to_where_its_description_does_not_reach(choose):
    query = "Six of us on Friday evening, vegetarian if possible"
    plain = await choose(query, ToolLimits(4, -1))
    examples = ("For four on Saturday night, with vegan food", "Is there space for two at eight tonight?")
    told = ToolDefinition("book_table", Raw(b"{}"), TABLE.description, examples=examples)
    taught = await choose(query, ToolLimits(4, -1), tools=(WEATHER, EMAIL, STOCKS, told))
    before = next(each for each in plain.chosen if each.name == "book_table")
    assert taught.chosen[0].name == "book_table" and taught.chosen[0].score > before.score
    assert before.examples is None and taught.chosen[0].examples > before.description


async def test_chinese_queries_find_tools_by_their_words(choose):
    chinese = ToolDefinition("tianqi", Raw(b"{}"), "查询任何城市的天气和温度")
    other = ToolDefinition("youjian", Raw(b"{}"), "发送电子邮件给联系人")
    assert names(await choose("明天北京天气怎么样", ToolLimits(1), tools=(other, chinese))) == ["tianqi"]


async def test_the_score_is_what_its_parts_say(index_of, encoders):
    index = await index_of(WEATHER)
    vector = (await encoders.encode("Any rain?")).vector
    scores = index.score_tools(vector, "Any rain?")
    texts = {"d": WEATHER.description, "n": "get weather"}
    cosine = {key: float((await encoders.encode(text)).vector @ vector) for key, text in texts.items()}
    clauses = ["Current weather", "forecast for any place"]
    clause = max([float((await encoders.encode(text)).vector @ vector) for text in clauses])
    own = (cosine["d"] + 0.4 * cosine["n"] + 0.6 * clause) / 2
    assert scores.total[0] == pytest.approx(0.6 * own + 0.4 * scores.words[0], abs=1e-5)


async def test_a_tool_without_words_or_an_empty_query_is_no_error(choose):
    odd = ToolDefinition("___", Raw(b"{}"), "")
    selection = await choose("???", ToolLimits(2, -1), tools=(odd, WEATHER))
    assert len(selection.chosen) == 2 and np.isfinite(selection.best)


def test_the_published_threshold_takes_ours_away_unless_both_are_given():
    assert tool_limits(ClassicTools()) == ToolLimits(3)
    assert tool_limits(ClassicTools(similarity_threshold=0.2)) == ToolLimits(3, -1.0, 0.2)
    assert tool_limits(ClassicTools(similarity_threshold=0.2, least_score=0.1), 7) == ToolLimits(7, 0.1, 0.2)
