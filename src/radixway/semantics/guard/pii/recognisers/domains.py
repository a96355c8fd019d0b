"""DOMAIN_NAME and EMAIL_ADDRESS: names under a top-level domain.

Those known are countries' (ISO 3166, IANA) and the generic ones that people have addresses under.
"""

import re
from collections.abc import Iterator

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.gazetteers import read_list
from radixway.semantics.guard.pii.recognisers.plain_text import ContextWords, PlainText, Recogniser

_MAX_LABELS = 127
_KNOWN = frozenset(label for line in read_list("top_level_domains") for label in line.split())


def known_length(name: str) -> int:
    """Return the length of `name` up to a top-level domain: `host.com` of `host.com.Thanks`; 0: none.

    Names in punycode are top-level domains. Linear: only as many labels are looked at as a name may have.
    """
    for _ in range(_MAX_LABELS):
        head, dot, last = name.rpartition(".")
        if not dot:
            return 0
        if last.lower() in _KNOWN or last[:4].lower() == "xn--":
            return len(name)
        name = head
    return 0


_LABEL = r"[A-Za-z0-9\u00c0-\u024f]++(?:-++[A-Za-z0-9\u00c0-\u024f]++)*+"
_NAME = re.compile(rf"(?<![A-Za-z0-9\u00c0-\u024f_.\-]){_LABEL}(?:\.{_LABEL})++")
_ENDING = re.compile(r"\.[A-Za-z]")
_SCHEME = "://"
_SCHEME_BEFORE = re.compile(r"(?<![A-Za-z])(?:https?|ftp|wss?)://$", re.IGNORECASE)
_MAX_SCHEME_CHARS = len("https://") + 1
_NOTHING_AFTER = re.compile(r"(/?)(?:[\s,;!?)\]>\"']|\.?$|\.\s|[\u3001\u3002\u4e00-\u9fff\uff0c])")
_MAX_HOST_CHARS = 253

_UNMISTAKABLE = """
com org net edu gov mil info biz io cn de uk fr jp ru br au ca nl ch se eu kr tw hk ie nz za mx ar cz hu
fi dk gr pt ua
"""
_PLAIN = frozenset(_UNMISTAKABLE.split())
"""Top-level domains that are hardly a word, a file's or method's ending, unlike `main.py`, `df.at`,
`work.It`."""

_OF_PROSE = """
dev app ai co me tv es online store shop blog cloud studio tech xyz agency design media news photography
photos health care clinic restaurant cafe gmbh london berlin paris nyc academy education consulting finance
hotel law software
"""
_PROSE = frozenset(_OF_PROSE.split())
"""Top-level domains that are attributes in code, but hardly a word after a full stop."""
_CODE = re.compile(r"[=(){}\[\];<>`_\\$]|->|import |def |var |let |const ")
_CODE_WINDOW = 25
_FRAMEWORKS = frozenset(["asp.net", "vb.net", "ado.net", "ml.net", "java.net", "paint.net", "socket.io"])
_SITE_WORDS = ContextWords(
    "website|web ?site|site|homepage|domain|url|link|visit|browse|hosted|blog|online at|go to|dns|hostname",
    "网站 网址 域名 官网 链接 主页",
    before=35,
    after=15,
)


def find_domains(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """Find DOMAIN_NAME: after `://` or with `www.` 0.95; under an ending that is nothing else 0.85; under
    another one 0.8 beside a word for it, else 0.4.
    """
    text = reading.text
    if _ENDING.search(text) is None:
        return
    for match in _NAME.finditer(text):
        begin = match.start()
        length = known_length(match[0])
        if not length or length > _MAX_HOST_CHARS:
            continue
        end = begin + length
        if confidence := _domain_confidence(text, begin, end):
            yield PersonalDataSpan("DOMAIN_NAME", *_with_scheme(text, begin, end), confidence)


def _with_scheme(text: str, begin: int, end: int) -> tuple[int, int]:
    """Widen the span by scheme and slash where the address is nothing but a host's."""
    scheme = _SCHEME_BEFORE.search(text, max(0, begin - _MAX_SCHEME_CHARS), begin)
    bare = _NOTHING_AFTER.match(text, end)
    return (scheme.start(), bare.end(1)) if scheme and bare else (begin, end)


def _domain_confidence(text: str, begin: int, end: int) -> float:
    """Return 0 for a mailbox, a path, a call or a framework."""
    name, before, after = text[begin:end], text[begin - 1 : begin], text[end : end + 1]
    if text[begin - 3 : begin] == _SCHEME:
        return 0.95
    if (before in ("@", "/", "\\", "$") and begin) or after in ("@", "(", "_") or name.lower() in _FRAMEWORKS:
        return 0.0
    if name[:4].lower() == "www.":
        return 0.95
    owner, _, ending = name.rpartition(".")
    if ending.lower() in _PLAIN and (ending.islower() or name.isupper()) and len(owner) > 1:
        return 0.85
    if ending in _PROSE and len(owner) > 2:
        is_in_code = _CODE.search(text, max(0, begin - _CODE_WINDOW), end + _CODE_WINDOW)
        if not is_in_code:
            return 0.75
    return 0.8 if _SITE_WORDS.near(text, begin, end) and ending.islower() else 0.4


# Nothing here is tried twice: a run of a local part's characters is entered at its beginning only, and every
# quantifier keeps what it took.
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+'\-\u00c0-\u024f])[A-Za-z0-9._%+'\-\u00c0-\u024f]++@" + rf"({_LABEL}(?:\.{_LABEL})++)"
)
_MAX_LOCAL_CHARS = 64

_BRACKETED_AT = r" ?[\[({<] ?(?:at|@) ?[\])}>] ?"
_BRACKETED_DOT = r" ?[\[({<] ?(?:dot|\.) ?[\])}>] ?"
_SPELT_AT = re.compile(rf"{_BRACKETED_AT}| at ", re.IGNORECASE)
_SPELT_DOMAIN = re.compile(
    rf"[A-Za-z0-9\-]{{1,63}}(?:(?:{_BRACKETED_DOT}| dot |\.)[A-Za-z0-9\-]{{1,63}}){{1,4}}", re.IGNORECASE
)
_SPELT_DOT = re.compile(rf"{_BRACKETED_DOT}| dot ", re.IGNORECASE)
_SPELT_LOCAL = re.compile(r"(?<![A-Za-z0-9._%+\-])[A-Za-z0-9._%+\-]{1,64}$")


def find_emails(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """Find EMAIL_ADDRESS: under a known top-level domain 0.99, another 0.6; `name (at) host dot com` 0.85."""
    if "@" in reading.text:
        yield from _find_plain(reading.text)
    lower = reading.text.lower()
    if "dot" in lower or "at)" in lower or "at]" in lower:
        yield from _find_spelt(reading.text)


def _find_plain(text: str) -> Iterator[PersonalDataSpan]:
    for match in _EMAIL.finditer(text):
        begin, at = match.start(), match.start(1) - 1
        while text[begin] in ".'-%+":
            begin += 1
        if begin == at or at - begin > _MAX_LOCAL_CHARS or _is_repository(text, begin, match.end()):
            continue
        length = known_length(match[1])
        if length or not match[1][-1].isdigit():
            yield PersonalDataSpan(
                "EMAIL_ADDRESS", begin, at + 1 + (length or len(match[1])), 0.99 if length else 0.6
            )


def _is_repository(text: str, begin: int, end: int) -> bool:
    """Return whether it is a repository, as `git@github.com:owner/name`."""
    return text.startswith("git@", begin) and text[end : end + 1] == ":"


def _find_spelt(text: str) -> Iterator[PersonalDataSpan]:
    for at in _SPELT_AT.finditer(text):
        local = _SPELT_LOCAL.search(text, max(0, at.start() - _MAX_LOCAL_CHARS - 1), at.start())
        domain = _SPELT_DOMAIN.match(text, at.end())
        if local is None or domain is None or not (at[0].strip() != "at" or _SPELT_DOT.search(domain[0])):
            continue
        name = _SPELT_DOT.sub(".", domain[0])
        if known_length(name) == len(name):
            yield PersonalDataSpan("EMAIL_ADDRESS", local.start(), domain.end(), 0.85)


RECOGNISERS = (
    Recogniser(("DOMAIN_NAME",), find_domains, fewest_digits=0),
    Recogniser(("EMAIL_ADDRESS",), find_emails, fewest_digits=0),
)
