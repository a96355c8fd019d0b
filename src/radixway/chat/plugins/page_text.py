"""A program of its own: the text of an HTML page or a PDF on stdin, on stdout.

What strangers wrote is read in a process that may be ended at any time, with little memory and little time.
It is started as a file, and imports nothing of ours.
"""

import io
import sys
from contextlib import suppress

_MEMORY = 1 << 30
_CPU_S = 3
_SILENT = ("script", "style", "noscript", "template", "svg", "nav", "header", "footer", "aside")
_INLINE = {"a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "dfn", "em", "font", "i", "kbd", "mark"}
_INLINE |= {"q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "u", "var"}


def extract_html_text(page: bytes, max_characters: int) -> str:
    """Return at most `max_characters` of `page`: its title and a line for each block of its main text."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(page)
    title = tree.css_first("title")
    lines, line, length = [title.text(strip=True) if title else ""], "", 0
    tree.strip_tags([*_SILENT, "head"])
    for node in tree.root.traverse(include_text=True) if tree.root else ():
        if node.tag == "-text":
            line += node.text_content or ""
            length += len(node.text_content or "")
        elif node.tag not in _INLINE:
            lines.append(" ".join(line.split()))
            line = ""
        if length > 4 * max_characters:  # white space counts here, and not in the end
            break
    lines.append(" ".join(line.split()))
    return "\n".join(line for line in lines if line)[:max_characters]


def extract_pdf_text(document: bytes, max_characters: int) -> str:
    """Return at most `max_characters` of `document`, read page by page."""
    from pypdf import PdfReader

    text = ""
    for page in PdfReader(io.BytesIO(document)).pages:
        text += page.extract_text() + "\n"
        if len(text) > max_characters:
            break
    return text[:max_characters].strip()


def main() -> None:
    """`page_text.py html|pdf CHARACTERS`."""
    import resource

    with suppress(ValueError, OSError):  # a system without this limit
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    read = {"html": extract_html_text, "pdf": extract_pdf_text}[sys.argv[1]]
    text = read(sys.stdin.buffer.read(), int(sys.argv[2]))
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
