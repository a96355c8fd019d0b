"""Images in messages of chat completions: parts of a content, with a URL or with bytes as a data: URL."""

from collections.abc import Iterable, Mapping
from typing import Any

_SCHEMES = ("http://", "https://", "data:image/")
"""Workers also read paths of their own files, which are none of a client's business."""


def make_image_part(url: str) -> dict[str, Any]:
    """Make the part of a content that shows the image at `url`."""
    return {"type": "image_url", "image_url": {"url": url}}


def find_image_url(part: Mapping[str, Any]) -> str | None:
    """Return the http(s): or data: URL in the `image_url` of `part`, None if there is none."""
    given = part.get("image_url")
    url = given.get("url") if isinstance(given, Mapping) else given
    return url if isinstance(url, str) and url.startswith(_SCHEMES) else None


def list_image_urls(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the URLs of the images in `messages`, in their order."""
    return [
        url
        for message in messages
        if isinstance(parts := message.get("content"), list)
        for part in parts
        if isinstance(part, Mapping) and part.get("type") == "image_url" and (url := find_image_url(part))
    ]
