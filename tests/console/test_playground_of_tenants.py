"""The playground of a gateway that answers tenants alone, and chooses which tools they are offered."""

import json

import pytest
from playwright.async_api import expect

from console.conftest import sign_in
from support.gateway_process import gateway_process
from support.maths_rules import RULES

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]
KEY, TENANTS_KEY = "the-key-of-admins", "the-key-of-acme"


def tool(name, description):
    """An entry of a database of tools."""
    parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"tool": {"type": "function", "function": function}, "description": description}


TOOLS = [
    tool("weather", "The weather forecast of a city"),
    tool("translate", "Translate a text into another language"),
    tool("pay", "Pay an invoice from the bank account"),
]


@pytest.fixture(scope="module")
def answers_tenants(live, tmp_path_factory):
    """A gateway with a tenant, and a database of tools."""
    directory = tmp_path_factory.mktemp("tenants")
    tools, rules = directory / "tools.json", directory / "rules.yaml"
    tools.write_text(json.dumps(TOOLS))
    rules.write_text(f"{RULES}tools: {{enabled: true, top_k: 1, tools_db_path: {tools}}}\n")
    tree = {
        "gateway": {"port": 0, "admin_key": KEY, "drain_s": 1},
        "workers": [{"url": url} for url in live.engines],
        "semantic": {"config": str(rules), "watch": False},
        "tenants": {"acme": {"keys": [{"key": TENANTS_KEY, "user": "anna"}]}},
    }
    with gateway_process(directory, tree, home=directory / "home") as (url, _):
        yield url


async def test_who_is_no_tenant_is_asked_for_a_tenants_key_and_stays_signed_in(
    open_page, browser, answers_tenants
):
    cookies = await sign_in(browser, answers_tenants, KEY)
    page = await open_page("/playground", url=answers_tenants, cookies=cookies)
    await page.get_by_label("Prompt", exact=True).fill("Will it rain in Rome tomorrow? Show the forecast.")
    await page.get_by_role("button", name="Run").click()
    main = page.locator("#rw-main")
    await expect(main.get_by_text("Refused with 401")).to_be_visible()
    await expect(main.get_by_text("answers tenants alone")).to_be_visible()
    await page.get_by_text("Tools and other fields", exact=True).click()
    await page.get_by_label("A tenant's key").fill("nobody-has-this-one")
    await page.get_by_role("button", name="Run").click()
    await expect(main.get_by_text("answers tenants alone")).to_be_hidden()
    await expect(main.get_by_text("Refused with 401")).to_be_visible()
    await page.get_by_label("A tenant's key").fill(TENANTS_KEY)
    await page.get_by_label("Other fields (JSON object)").fill('{"tool_choice": "auto"}')
    await page.get_by_role("button", name="Run").click()
    await expect(main.get_by_role("link", name="This request")).to_be_visible()
    await expect(main.get_by_text("weather (1/3)")).to_be_visible()
    await page.get_by_role("link", name="This request").click()
    await expect(main.get_by_text("acme", exact=True)).to_be_visible()
    assert TENANTS_KEY not in await page.content()


async def test_marks_stand_where_they_were_found_whatever_is_typed_meanwhile(
    open_page, browser, answers_tenants
):
    cookies = await sign_in(browser, answers_tenants, KEY)
    page = await open_page("/playground", url=answers_tenants, cookies=cookies)
    prompt = page.get_by_label("Prompt", exact=True)
    await prompt.fill("Write to anna@example.org about it.")
    await page.get_by_role("button", name="Look").click()
    await prompt.fill("Never mind: there is nobody to write to.")
    await expect(page.locator("#rw-main mark")).to_contain_text("anna@example.org")
