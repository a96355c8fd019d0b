"""Finds the human's ask in a prompt: pure, without recursion, in time linear in the text.

A prompt is cut into lines, tags and quotation marks. Then each step leaves out what is not the ask:

    tags → JSON → e-mail → chat log → labels and headings → quotation marks → comments → paragraphs

Where a step would leave nothing, it leaves everything as it was: a plain question is read whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, dropwhile
from typing import Any

from radixway.semantics.prompts.lines import PartKind, PromptLine, cut_lines
from radixway.semantics.prompts.structured import (
    ask_in_json,
    ask_in_tag,
    ask_in_yaml,
    find_json,
    html_text,
)
from radixway.semantics.prompts.wording import (
    ASK_TAGS,
    LabelKind,
    asks,
    heading_kind,
    is_frame,
    is_harness_tag,
    is_impersonal,
    label_kind,
    label_strength,
    refers_to_data,
    shares_words,
    speaker_kind,
    split_sentences,
)

_MAX_DATA_READ = 2_000
"""Characters of data that are read with an ask about them."""
_MAX_RELATED_READ = 600
"""Characters of data that are read with an ask that shares words with them."""
_LONG_PASSAGE = 200
"""Characters from which an impersonal paragraph beside an ask is taken for a passage."""

_MAX_MARK_CHARS = 200
"""Characters of a line in which a label or a rule is looked for."""
_MAX_HEADING_CHARS = 80
_TABLE_LINES = 4
_LOG_LINES = 2
_NOTE_WORDS = 6
_MAX_DEPTH = 3
"""Texts in one another that are read: a page in JSON in a tag."""
_FRAME_LINES = 60
"""Lines at either end of a text among which those that say how to answer are looked for."""

_LABEL = re.compile(
    r"\s*(?:#{1,6}\s*|[-*•]\s+|\d+[.)]\s+|【|\[)?(?:\*\*|__)?([^\W\d_][^:：\n*#<>{}\"\]】]{0,32}?)"
    r"\s*(?:[:：]\s*(?:\*\*|__)?|(?:\*\*|__)\s*[:：]?|】|\][:：]?)\s*"
)
_HEADING = re.compile(r"#{1,6}\s+(?=\S)(?:\d+[.)]?\s+(?=\S))?(.{1,60}?)\s*[:：#]*$")
_QUOTED = re.compile(r"[\"“「『]([^\"“”「」『』]+)[\"”」』]")
_SIGNATURE = re.compile(r"[^\W\d_][\w.'-]*(?: [^\W\d_][\w.'-]*){0,3}$")
_CHAT_LINE = re.compile(
    r"\s*(?:[\[(]?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:\s?[AaPp]\.?[Mm]\.?)?[\])]?\s*[-–|]?\s*)([^\W\d_][^:：\n]{0,30}?)\s*[:：>]\s+(?=\S)"
)
_LOG_LINE = re.compile(
    r"\s*(?:[\[(<]?\d{4}[-/]\d\d[-/]\d\d[T ]\d|[\[(]?\d\d:\d\d:\d\d|\w{3} +\d{1,2} \d\d:\d\d:\d\d"
    r"|\d+\.\d+\.\d+\.\d+ |[\[(]?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL|CRITICAL|NOTICE)\b"
    r"|at [\w.$]+\(|File \".*\", line \d|Traceback \()"
)
_RULE = re.compile(r"\s*([-=*_~#])\1{2,}\s*$")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_MAIL_FIELD = re.compile(
    r"\s*(from|to|cc|bcc|subject|date|sent|reply-to|received|发件人|收件人|主题|抄送|日期)\s*[:：]", re.I
)
_MAIL_END = re.compile(
    r"\s*(?:--\s*$|-{2,}\s*(?:original|forwarded)\b|_{10,}\s*$|on\b.{4,120}\bwrote:\s*$|在.{4,60}写道[:：]?\s*$|>)",
    re.I,
)
_COMMENT = re.compile(r"\s*(?:#(?![!\[])|//+|--(?!-)|;+|%|\*(?!/)|/\*+|<!--)\s?(.*?)(?:\*/|-->)?$")
_TRANSCRIPT = re.compile(
    r"<\|im_start\|>(\w+)\n|<\|(?:start_header_id\|>)?(user|assistant|system)\|?(?:<\|end_header_id\|>|>)\n?|\[INST\]"
)
_TRANSCRIPT_END = re.compile(r"<\|im_end\|>|<\|eot_id\|>|<\|end\|>|\[/INST\]|</s>")
_ANNOUNCED = re.compile(r"[^:：?？]{1,200}[:：]\s*")


@dataclass(slots=True)
class PromptPart:
    """A part of a prompt."""

    kind: PartKind
    why: str
    """The step and what it saw: `tag system-reminder`, `label context`."""
    start: int
    end: int
    """Its characters in the text."""


@dataclass(slots=True)
class PromptReading:
    """What of a prompt is the ask."""

    ask: str
    """The text that is judged, with the data that it is about. Empty where there is no ask, only an
    application's reminders."""
    parts: list[PromptPart] = field(default_factory=list)
    """All parts in their order; one of kind `ask` where nothing was left out."""

    def explain(self) -> dict[str, Any]:
        """Return characters by kind, and why each was left out: no words of the prompt."""
        left = [part for part in self.parts if part.kind != "ask"]
        return {
            "characters": len(self.ask),
            "left_out": [
                {"kind": part.kind, "why": part.why, "characters": part.end - part.start}
                for part in left[:20]
            ],
        }


def read_prompt(text: str) -> PromptReading:
    """Return the ask in `text`, a user's message or prompt, and what else there is."""
    return _read_nested(text, 0)


def _read_nested(text: str, depth: int) -> PromptReading:
    """Read `text`, which stood in `depth` others: JSON in HTML, say."""
    if "\n" not in text and len(text) < 400 and "<" not in text and "{" not in text:
        return _read_line(text)
    if depth < _MAX_DEPTH:
        for how, inner in (("HTML", html_text(text)), ("YAML", ask_in_yaml(text)), ("tag", ask_in_tag(text))):
            if inner:
                return PromptReading(
                    _read_nested(inner, depth + 1).ask, [PromptPart("ask", how, 0, len(text))]
                )
    reader = _PromptReader(text, depth)
    reader.read()
    return reader.reading()


def _read_line(text: str) -> PromptReading:
    """Read one short line: only sentences about the answer can be beside an ask."""
    ask = _without_frame(text)
    found = text.find(ask) if ask else -1
    if found < 0 or len(ask) == len(text.strip()):
        return PromptReading(text, [PromptPart("ask", "", 0, len(text))])
    parts = [
        PromptPart("frame", "sentence", 0, found),
        PromptPart("ask", "", found, found + len(ask)),
        PromptPart("frame", "sentence", found + len(ask), len(text)),
    ]
    return PromptReading(ask, [part for part in parts if part.end > part.start])


class _PromptReader:
    """Reads one prompt."""

    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.depth = depth
        self.lines = list(cut_lines(text))
        self.found: str | None = None
        """The ask, where it is not what is left of the text: unescaped, or uncommented."""

    def read(self) -> None:
        self._read_transcript()
        self._read_tags()
        self._read_json()
        if self.found is not None:
            return
        self._read_mail()
        self._read_chat_log()
        self._read_labels()
        self._read_quotes()
        self._read_comments()
        if self.found is None:
            self._read_paragraphs()

    def reading(self) -> PromptReading:
        """Return the ask and the parts, neighbours of a kind as one."""
        parts: list[PromptPart] = []
        for line in self.lines:
            if line.start == line.end:
                continue
            last = parts[-1] if parts else None
            if last is not None and (last.kind, last.why) == (line.part, line.why):
                last.end = line.end
            else:
                parts.append(PromptPart(line.part, line.why, line.start, line.end))
        if self.found is not None:
            return PromptReading(self.found, parts)
        ask = self._text_of(line for line in self.lines if line.part == "ask").strip()
        if not ask and all(part.why.startswith("tag ") for part in parts):
            return PromptReading("", parts)
        if not ask:
            return PromptReading(self.text, [PromptPart("ask", "", 0, len(self.text))])
        stripped = _without_frame(ask) or ask
        data = self._text_of(line for line in self.lines if line.part == "data").strip()
        if data and (refers_to_data(stripped) or stripped.endswith((":", "："))):
            return PromptReading(f"{stripped}\n{data[:_MAX_DATA_READ]}", parts)
        if data and shares_words(stripped, data):
            return PromptReading(f"{stripped}\n{data[:_MAX_RELATED_READ]}", parts)
        return PromptReading(stripped, parts)

    # ------------------------------------------------------------ steps

    def _read_transcript(self) -> None:
        """Keep the last user's turn of a chat that was written out with a template's special tokens."""
        marks = list(_TRANSCRIPT.finditer(self.text))
        if not marks:
            return
        turns = [mark for mark in marks if (mark[1] or mark[2] or "user") == "user"]
        if not turns:
            return
        start = turns[-1].end()
        end = _TRANSCRIPT_END.search(self.text, start)
        until = end.start() if end else len(self.text)
        if self.text[start:until].strip():
            self._narrow(start, until, "frame", "chat template")

    def _read_tags(self) -> None:
        """Keep what the innermost tag named like an ask holds; else leave out what other tags hold."""
        pairs = self._tag_pairs()
        if not pairs:
            return
        shown = list(accumulate((bool(self._of(line).strip()) for line in self.lines), initial=0))
        wanted = [
            (first, last)
            for first, last, name in pairs
            if name in ASK_TAGS and shown[last] > shown[first + 1]
        ]
        if wanted:
            first, last = wanted[-1]
            self._leave_out(self.lines[: first + 1], "frame", "around tag")
            self._leave_out(self.lines[last:], "frame", "around tag")
            inner = [pair for pair in pairs if first < pair[0] and pair[1] < last]
            for begin, end, name in _without_overlaps(inner):
                self._leave_out(self.lines[begin:end], "data", f"tag {name}")
            return
        spans = _without_overlaps(pairs)
        inside = {line for begin, end, _ in spans for line in self.lines[begin:end]}
        rest = [line for line in self.lines if line not in inside and line.part == "ask"]
        # A text of tags alone is a reminder without an ask; a document with tags in it is read whole.
        only_harness = all(is_harness_tag(name) for *_, name in pairs)
        if self._text_of(rest).strip() or only_harness:
            for begin, end, name in spans:
                kind: PartKind = "frame" if is_harness_tag(name) else "data"
                self._leave_out(self.lines[begin:end], kind, f"tag {name}")

    def _read_json(self) -> None:
        """Read the ask from JSON, bare, in a fence, or after instructions that announce it."""
        left = [line for line in self.lines if line.part == "ask"]
        span = find_json(self.text, left)
        if span is None:
            return
        start, end = span
        around = [line for line in left if line.end <= start or line.start >= end]
        said = self._text_of(line for line in around if not _FENCE.match(self._of(line))).strip()
        if said and not all(is_frame(sentence) for sentence in split_sentences(said)):
            return
        try:
            value = json.loads(self.text[start:end])
        except (ValueError, RecursionError):
            return
        ask = ask_in_json(value)
        if ask is None:
            return
        is_nested = len(ask) < end - start and self.depth < _MAX_DEPTH
        self.found = _read_nested(ask, self.depth + 1).ask if is_nested else ask
        inside = set(left).difference(around)
        self._leave_out(around, "frame", "around JSON")
        for line in inside:
            line.why = "JSON"

    def _read_mail(self) -> None:
        """Leave out an e-mail's header fields, greeting, signature and what it quotes."""
        left = [line for line in self.lines if line.part == "ask"]
        shown = [line for line in left if self._of(line).strip()]
        fields = [line for line in shown[:12] if _MAIL_FIELD.match(self._of(line))]
        ends = [line for line in shown if _MAIL_END.match(self._of(line))]
        if len(fields) < 2 and not (
            ends and any("wrote" in self._of(line) or ">" in self._of(line)[:2] for line in ends)
        ):
            return
        after = [line for line in left if not fields or line.start > fields[-1].start]
        cut = next(
            (line.start for line in ends if not fields or line.start > fields[-1].start), len(self.text)
        )
        body = [line for line in after if line.start < cut and line not in fields]
        if not self._text_of(body).strip():  # replies below what they quote
            quoting = set(ends)
            body = [line for line in after if line not in quoting]
        if not self._text_of(body).strip():
            return
        keep = set(body)
        self._leave_out((line for line in left if line not in keep), "data", "e-mail")
        for line in body:
            said = self._of(line).strip()
            if said and is_frame(said):
                self._leave_out([line], "frame", "greeting")
        self._leave_closing_out(body)

    def _leave_closing_out(self, body: Sequence[PromptLine]) -> None:
        """Leave out a name alone under a greeting."""
        shown = [line for line in body if self._of(line).strip()]
        if len(shown) > 1 and shown[-2].part == "frame" and len(self._of(shown[-1]).split()) <= 4:
            self._leave_out(shown[-1:], "frame", "greeting")

    def _read_chat_log(self) -> None:
        """Keep the last turn of a chat whose lines begin with a time and a name."""
        left = [line for line in self.lines if line.part == "ask" and self._of(line).strip()]
        turns = [at for at, line in enumerate(left) if _CHAT_LINE.match(self._of(line)[:_MAX_MARK_CHARS])]
        if len(turns) < 2:
            return
        before = _without_frame(self._text_of(left[: turns[0]]))
        if any(map(asks, split_sentences(before))):
            self._leave_out(left[turns[0] :], "data", "chat log")
            return
        last = left[turns[-1]]
        self._leave_out(left[: turns[-1]], "data", "chat log")
        said = _CHAT_LINE.match(self._of(last))
        assert said is not None
        self._narrow_line(last, last.start + said.end())

    def _narrow_line(self, line: PromptLine, start: int) -> None:
        """Leave out what of `line` stands before `start`."""
        self.lines.insert(self.lines.index(line), PromptLine(line.start, start, "", "frame", "label"))
        line.start = start

    def _read_labels(self) -> None:
        """Keep the last section under the label most like an ask."""
        left = [line for line in self.lines if line.part == "ask"]
        sections = self._sections(left)
        if len(sections) < 2:
            return
        before = self._text_of(sections[0].lines)
        asked = [each for each in sections if each.kind == "ask" and self._text_of(each.lines).strip()]
        last = sections[-1]
        if not asked:
            self._leave_sections_out(sections)
            return
        strongest = max(each.strength for each in asked)
        chosen = [each for each in asked if each.strength == strongest]
        if strongest == 2:  # a task and its description are one; of questions the last one is asked
            chosen += [
                each for each in sections if each.kind is None and each.mark and not self._is_note(each)
            ]
        else:
            chosen = chosen[-1:]
        told = [each for each in split_sentences(before) if not is_frame(each)]
        if strongest < 3 and told:
            return
        is_pasted = last.kind == "answer" and self._text_of(last.lines).strip() and last not in chosen
        if any(map(asks, told)) and (is_pasted or any(asks(each) and refers_to_data(each) for each in told)):
            for section in sections[1:]:
                marks = [] if section.mark is None else [section.mark]
                self._leave_out([*marks, *section.lines], "data", f"label {section.label}")
            return
        wanted = {line for each in chosen for line in each.lines}
        rules = (line for line in left if line not in wanted and _RULE.match(self._of(line)))
        self._leave_out(rules, "frame", "rule")
        for section in sections:
            if section.mark is not None:
                self._leave_out([section.mark], "frame", "label")
            if section not in chosen:
                kind: PartKind = "data" if section.kind == "data" or section.kind == "answer" else "frame"
                self._leave_out(
                    section.lines, kind, f"label {section.label}" if section.label else "before label"
                )

    def _is_note(self, section: _Section) -> bool:
        """Return whether a section is a rule, or a few words that ask nothing, as a version is."""
        said = self._text_of(section.lines).strip()
        return len(said.split()) <= _NOTE_WORDS and not any(map(asks, split_sentences(said)))

    def _leave_sections_out(self, sections: Sequence[_Section]) -> None:
        """Where no label names an ask, leave out sections of data and of style, if something stays."""
        kinds = ("data", "style", "answer")
        other = [each for each in sections if each.kind in kinds]
        stays = [line for each in sections if each.kind not in kinds for line in each.lines]
        said = _without_frame(self._text_of(stays))
        is_style = all(each.kind == "style" for each in other)
        if not (said if is_style else any(map(asks, split_sentences(said)))):
            return
        for section in other:
            kind: PartKind = "frame" if section.kind == "style" else "data"
            marks = [] if section.mark is None else [section.mark]
            self._leave_out([*marks, *section.lines], kind, f"label {section.label}")

    def _read_quotes(self) -> None:
        """Between triple quotes stands the ask where all around says how to answer; else data."""
        left = [line for line in self.lines if line.part == "ask"]
        if any(map(_FENCE.match, map(self._of, left))):
            return
        marks = [at for at, line in enumerate(left) if line.tag in ('"""', "'''")]
        if len(marks) < 2:
            return
        first, last = marks[0], marks[-1]
        inside, around = left[first + 1 : last], [*left[:first], *left[last + 1 :]]
        if not self._text_of(inside).strip():
            return
        said = split_sentences(self._text_of(around))
        marks_of = (left[first], left[last])
        if said and not all(map(is_frame, said)):
            if any(map(asks, said)):
                self._leave_out([*inside, *marks_of], "data", "quotation")
            return
        if said:
            self._leave_out([*around, *marks_of], "frame", "around quotation")

    def _read_comments(self) -> None:
        """Read a comment that asks something, where all of the text is code."""
        left = [line for line in self.lines if line.part == "ask" and self._of(line).strip()]
        if len(left) < 3 or not _FENCE.match(self._of(left[0])) or not _FENCE.match(self._of(left[-1])):
            return
        said = [found[1].strip() for line in left[1:-1] if (found := self._comment(line))]
        comment = "\n".join(said).strip()
        is_ask = any(map(asks, split_sentences(comment))) or self._comment(left[1])
        if (len(comment.split()) > 2 or not comment.isascii()) and is_ask and len(said) < len(left) - 2:
            self.found = _without_frame(comment) or comment
            for line in left:
                if not self._comment(line):
                    self._leave_out([line], "data", "code")

    def _read_paragraphs(self) -> None:
        """Leave out long impersonal passages before or after an ask."""
        paragraphs = [each for each in self._paragraphs() if self._text_of(each).strip()]
        if len(paragraphs) < 2:
            return
        texts = [self._text_of(each).strip() for each in paragraphs]
        said = [_without_frame(text) for text in texts]
        is_data = [_is_passage(text) or _is_table(text) or _is_log(text) for text in texts]
        edges = (0, -1)
        if not any(said[at] and not is_data[at] for at in edges):
            return
        for text, lines, data in zip(said, paragraphs, is_data, strict=True):
            if not text:
                self._leave_out(lines, "frame", "sentence")
            elif data:
                self._leave_out(lines, "data", "passage")

    # ------------------------------------------------------------ lines

    def _of(self, line: PromptLine) -> str:
        return self.text[line.start : line.end]

    def _comment(self, line: PromptLine) -> re.Match[str] | None:
        return _COMMENT.match(self._of(line).strip())

    def _text_of(self, lines: Iterable[PromptLine]) -> str:
        """Return the text of lines, with one line end or nothing between two, as there was."""
        pieces: list[str] = []
        end = -1
        for line in lines:
            if end >= 0 and line.start != end:
                pieces.append("\n")
            pieces.append(self._of(line))
            end = line.end
        return "".join(pieces)

    def _leave_out(self, lines: Iterable[PromptLine], part: PartKind, why: str) -> None:
        for line in lines:
            if line.part == "ask":
                line.part, line.why = part, why

    def _narrow(self, start: int, end: int, part: PartKind, why: str) -> None:
        """Leave out all but the characters from `start` to `end`."""
        narrowed: list[PromptLine] = []
        for line in self.lines:
            if line.end <= start or line.start >= end:
                line.part, line.why = part, why
                narrowed.append(line)
                continue
            if line.start < start:
                narrowed.append(PromptLine(line.start, start, "", part, why))
            narrowed.append(PromptLine(max(line.start, start), min(line.end, end), line.tag))
            if line.end > end:
                narrowed.append(PromptLine(end, line.end, "", part, why))
        self.lines = narrowed

    def _tag_pairs(self) -> list[tuple[int, int, str]]:
        """Return (line of the opening tag, of the closing one, name) of outermost pairs and of asks."""
        waiting: dict[str, list[int]] = {}
        pairs: list[tuple[int, int, str]] = []
        for at, line in enumerate(self.lines):
            if not line.tag or line.part != "ask" or line.tag[0] in "\"'":
                continue
            if not line.tag.startswith("/"):
                waiting.setdefault(line.tag, []).append(at)
            elif waiting.get(line.tag[1:]):
                pairs.append((waiting[line.tag[1:]].pop(), at, line.tag[1:]))
        outer: list[tuple[int, int, str]] = []
        for pair in sorted(pairs):
            if not outer or pair[0] > outer[-1][1] or pair[2] in ASK_TAGS:
                outer.append(pair)
        return outer

    def _sections(self, lines: Sequence[PromptLine]) -> list[_Section]:
        """Cut lines at known labels, headings and rules; the first section has no label."""
        sections = [_Section("", None, 0, [])]
        labels: list[PromptLine] = []
        speaks = self._is_dialogue(lines)
        fenced = False
        for line in lines:
            said = self.text[line.start : min(line.end, line.start + _MAX_MARK_CHARS)]
            fenced ^= _FENCE.match(said) is not None
            if fenced:
                sections[-1].lines.append(line)
                continue
            if _RULE.match(said):
                sections.append(_Section("rule", None, 0, [], line))
                continue
            heading = _HEADING.match(plain) if len(plain := said.strip()) < _MAX_HEADING_CHARS else None
            found = None if heading else _LABEL.match(said)
            label = heading[1] if heading else found[1] if found else ""
            kind_of = heading_kind if heading else label_kind
            kind = kind_of(label) if label and not label[0].islower() else None
            strength = label_strength(label)
            if kind is None and speaks and label:
                kind = speaker_kind(label)
                strength = 3 * (kind == "ask")
            if kind is None and not heading:
                sections[-1].lines.append(line)
                continue
            sections.append(_Section(label.casefold()[:24], kind, strength, [], line))
            if found is not None and line.start + found.end() < line.end:
                mark = PromptLine(line.start, line.start + found.end())
                labels.append(mark)
                line.start = mark.end
                sections[-1].mark = mark
                sections[-1].lines.append(line)
        self.lines = sorted([*self.lines, *labels], key=lambda line: line.start)
        return [sections[0], *(each for each in sections[1:] if each.lines or each.kind is not None)]

    def _is_dialogue(self, lines: Iterable[PromptLine]) -> bool:
        """Return whether somebody who asks and somebody who answers speak in turns."""
        found = (_LABEL.match(self._of(line)[:_MAX_MARK_CHARS]) for line in lines)
        return {"ask", "answer"} <= {speaker_kind(each[1]) for each in found if each}

    def _paragraphs(self) -> list[list[PromptLine]]:
        paragraphs: list[list[PromptLine]] = [[]]
        fenced = was_log = False
        for line in self.lines:
            if line.part != "ask":
                continue
            said = self._of(line)
            if _FENCE.match(said):
                fenced = not fenced
            is_log = not fenced and _LOG_LINE.match(said[:_MAX_MARK_CHARS]) is not None
            if paragraphs[-1] and is_log != was_log and said.strip():
                paragraphs.append([])
            was_log = is_log
            if said.strip() or fenced:
                paragraphs[-1].append(line)
            elif paragraphs[-1]:
                paragraphs.append([])
        return paragraphs


@dataclass(slots=True, eq=False)
class _Section:
    """Lines under a label."""

    label: str
    kind: LabelKind | None
    strength: int
    lines: list[PromptLine]
    mark: PromptLine | None = None
    """The label, heading or rule itself."""


def _without_overlaps(pairs: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return (first line, line after the last, name) of `pairs` in their order, no line twice."""
    spans: list[tuple[int, int, str]] = []
    at = 0
    for begin, end, name in pairs:
        if end >= at:
            spans.append((max(begin, at), end + 1, name))
            at = end + 1
    return spans


def _is_passage(text: str) -> bool:
    """Return whether a paragraph is prose about something, long, that asks hardly anything."""
    if len(text) * (1 if text.isascii() else 2.5) < _LONG_PASSAGE or text[-1] in "?？:：" or _is_code(text):
        return False
    sentences = split_sentences(text)
    return len(sentences) > 1 and 3 * sum(map(asks, sentences)) <= len(sentences) and is_impersonal(text)


def _is_table(text: str) -> bool:
    """Return whether a paragraph is four or more lines with the same number of cells, three or more."""
    lines = text.split("\n")
    if len(lines) < _TABLE_LINES:
        return False
    return any(
        lines[0].count(mark) > 1 and len({line.count(mark) for line in lines}) == 1 for mark in ",;\t|"
    )


def _is_log(text: str) -> bool:
    """Return whether a paragraph is lines of a log."""
    lines = text.split("\n")
    return len(lines) >= _LOG_LINES and all(_LOG_LINE.match(line[:_MAX_MARK_CHARS]) for line in lines)


def _is_code(text: str) -> bool:
    return "```" in text or sum(text.count(mark) for mark in "{};=()<>$\\") * 25 > len(text)


def _without_frame(text: str) -> str:
    """Return `text` without lines that say how to answer, and without such sentences at its beginning."""
    lines = text.split("\n")
    middle = range(_FRAME_LINES, len(lines) - _FRAME_LINES)
    kept = []
    closed = False
    for at, line in enumerate(lines):
        is_said = at in middle or not line.strip() or not all(map(is_frame, split_sentences(line)))
        if is_said and not (closed and _SIGNATURE.match(line.strip())):
            kept.append(line)
        closed = not is_said and line.rstrip().endswith(",")
    first = next((at for at, line in enumerate(kept) if line.strip()), None)
    if first is None:
        return ""
    sentences = split_sentences(kept[first])
    told = list(dropwhile(is_frame, sentences))
    if 0 < len(told) < len(sentences):
        kept[first] = kept[first][kept[first].index(told[0]) :]
    announced = _ANNOUNCED.match(kept[first])
    if announced and is_frame(announced[0]) and announced.end() < len(kept[first]):
        kept[first] = kept[first][announced.end() :]
    said = "\n".join(kept).strip()
    quoted = _QUOTED.fullmatch(said) if len(said) < len(text.strip()) else None
    return quoted[1].strip() if quoted else said
