"""What people who cannot see a page, or not well, find of it: names, landmarks, contrast."""

from contextlib import suppress

import pytest
from playwright.async_api import TimeoutError, expect

from radixway.console.pages import PAGES

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

NAMELESS = """
() => [...document.querySelectorAll('a, button, input, select, textarea, [role=button], [role=img], dialog')]
  .filter((each) => each.offsetParent !== null)
  .filter((each) => !(
    each.textContent.trim() || each.getAttribute('aria-label') || each.labels?.length
    || each.getAttribute('aria-labelledby') || each.title || each.type === 'hidden'
    || each.closest('label')?.textContent.trim() || each.getAttribute('aria-hidden') === 'true'))
  .map((each) => each.outerHTML.slice(0, 200))
"""
# By WCAG 2.2, 1.4.3: every text that is seen, against the nearest ground that is painted behind it.
FAINT = """
() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b]
    .map((one) => one / 255)
    .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (each) => {
    for (let up = each; up; up = up.parentElement) {
      const colour = rgba(getComputedStyle(up).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const each = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || each.offsetParent === null) continue;
    if (each.closest('.q-icon, svg, script, style')) continue;
    const [one, other] = [light(rgba(getComputedStyle(each).color)), light(ground(each))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const size = parseFloat(getComputedStyle(each).fontSize);
    if (contrast < (size >= 24 ? 3 : 4.5)) found.push(`${texts.currentNode.data}: ${contrast.toFixed(2)}`);
  }
  return [...new Set(found)];
}
"""


async def left_over(page, script):
    """What it still finds once the page is drawn and has its colours."""
    with suppress(TimeoutError):
        await page.wait_for_function(f"() => ({script})().length === 0")
    return await page.evaluate(script)


@pytest.mark.parametrize("path", [page.path for page in PAGES])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_everything_has_a_name_and_is_legible(open_page, path, dark):
    page = await open_page(path, dark=dark)
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert await left_over(page, NAMELESS) == []
    assert await left_over(page, FAINT) == []
    assert await page.locator("main").count() == await page.locator("h1").count() == 1
    assert await page.get_by_role("navigation", name="Pages").count() == 1
    assert await page.locator("[aria-current=page]").count() == 1


async def test_nothing_moves_for_those_who_do_not_want_it(open_page):
    page = await open_page("/workers")
    longest = await page.evaluate(
        "() => Math.max(...[...document.querySelectorAll('*')]"
        ".map((each) => parseFloat(getComputedStyle(each).transitionDuration)))"
    )
    assert longest <= 0.001
