"""A shared thread as a page for people: plain HTML without scripts, every word of it escaped."""

from html import escape

from radixway.api.chats.v1.shapes import SharedThread

HEADERS = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}
_WORDS = {
    "en": {"title": "A shared chat", "user": "Question", "assistant": "Answer", "shared": "Shared"},
    "zh": {"title": "分享的对话", "user": "提问", "assistant": "回答", "shared": "分享于"},
}
_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;"
    "padding:0 1rem}h1{font-size:1.4rem}article{margin:1.5rem 0}header{font-size:.85rem;opacity:.75}"
    "p{white-space:pre-wrap;overflow-wrap:anywhere;margin:.25rem 0}"
    "article.user p{background:#8882;border-radius:.75rem;padding:.6rem .9rem}"
)


def render_shared_page(thread: SharedThread, accepted_languages: str) -> str:
    """Return `thread` as HTML, in Chinese where `accepted_languages`, a header, begins with it."""
    language = "zh" if accepted_languages.strip().lower().startswith("zh") else "en"
    words = _WORDS[language]
    title = escape(thread.title or words["title"])
    parts = [
        f"<!doctype html><html lang='{language}'><meta charset='utf-8'><title>{title}</title>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<style>{_STYLE}</style><main><h1>{title}</h1>"
        f"<header>{words['shared']} {thread.shared_at:%Y-%m-%d %H:%M} UTC</header>"
    ]
    for message in thread.messages:
        role = "assistant" if message.role == "assistant" else "user"
        author = escape(message.model or words[role]) if role == "assistant" else words[role]
        parts.append(
            f"<article class='{role}'><header>{author} · {message.created_at:%Y-%m-%d %H:%M} UTC</header>"
            f"<p>{escape(message.content or '')}</p></article>"
        )
    return "".join([*parts, "</main></html>"])
