"""Bodies of `multipart/form-data` (RFC 7578): fields are read and changed, other bytes stay as they came."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from email.message import Message
from typing import Any, NamedTuple

import msgspec

from radixway.core.http.errors import BadBodyError

_MAX_PARTS = 1000
_MAX_HEAD_BYTES = 8192
"""Of the head of one part."""
_PADDING = b" \t"
_DISPOSITION = re.compile(rb"content-disposition[ \t]*:([^\r\n]*(?:\r\n[ \t][^\r\n]*)*)", re.IGNORECASE)


class FormPart(NamedTuple):
    """A part of a form: its name, and where its content lies in the body."""

    name: str
    is_file: bool
    begin: int
    end: int


class FormBody:
    """A form as it came. What is not changed of it keeps its bytes, the boundary included."""

    def __init__(self, raw: bytes, boundary: bytes, parts: Sequence[FormPart], end: int) -> None:
        """`parts`: in the order of the body `raw`; `end`: where its closing delimiter begins."""
        self.raw = raw
        self._boundary = boundary
        self._parts = parts
        self._end = end

    @property
    def text_bytes(self) -> int:
        """Bytes of all fields that are no files."""
        return sum(part.end - part.begin for part in self._parts if not part.is_file)

    def read_fields(self, lines_of: Collection[str] = ()) -> dict[str, Any]:
        """Return texts by name, a list where a name comes again, and True in place of a file.

        A file among `lines_of` is given as its lines, those that are JSON decoded.
        Raises BadBodyError naming a field that is no UTF-8 text.
        """
        fields: dict[str, Any] = {}
        for part in self._parts:
            name = part.name.removesuffix("[]")
            if part.is_file:
                value: Any = _decode_lines(self._text_of(part)) if name in lines_of else True
            else:
                value = self._text_of(part)
            if name not in fields:
                fields[name] = value
            elif part.is_file and value is True:
                continue
            else:
                known = fields[name]
                fields[name] = [*(known if isinstance(known, list) else [known]), value]
        return fields

    def find_file(self, name: str) -> bytes | None:
        """Return the content of the first file of that `name`, if there is one."""
        for part in self._parts:
            if part.is_file and part.name == name:
                return self.raw[part.begin : part.end]
        return None

    def with_fields(self, changes: Mapping[str, Any]) -> FormBody:
        """Return the form with `changes`: a text for each name, a list for one that comes again or for the
        lines of a file; `msgspec.UNSET` removes a field."""
        pieces: list[bytes] = []
        at = 0
        told: dict[str, int] = {}
        for part in self._parts:
            name = part.name.removesuffix("[]")
            if name not in changes:
                continue
            value, nth = changes[name], told.get(name, 0)
            told[name] = nth + 1
            if value is msgspec.UNSET:
                begin, end = self._find_delimiter(part), part.end + 2
                pieces.append(self.raw[at:begin])
                at = end
                continue
            if part.is_file:
                content = b"\n".join(map(_encode_value, value))
            else:
                content = _encode_value(value[nth] if isinstance(value, list) else value)
            pieces += [self.raw[at : part.begin], content]
            at = part.end
        pieces.append(self.raw[at : self._end])
        for name, value in changes.items():
            if name not in told and value is not msgspec.UNSET:
                head = b'--%b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n'
                pieces.append(head % (self._boundary, name.encode()) + _encode_value(value) + b"\r\n")
        pieces.append(self.raw[self._end :])
        return _split_form(b"".join(pieces), self._boundary)

    def _text_of(self, part: FormPart) -> str:
        try:
            return self.raw[part.begin : part.end].decode()
        except UnicodeDecodeError:
            raise BadBodyError(f"{part.name}: must be UTF-8 text", param=part.name) from None

    def _find_delimiter(self, part: FormPart) -> int:
        return self.raw.rindex(b"--" + self._boundary, 0, part.begin)


def parse_form(raw: bytes, content_type: bytes) -> FormBody:
    """Return the form in the body `raw`. Raises BadBodyError (400): it is none, or is cut."""
    head = Message()
    head["content-type"] = content_type.decode("latin-1")
    boundary = head.get_boundary()
    if head.get_content_type() != "multipart/form-data" or not boundary:
        raise BadBodyError("the body must be multipart/form-data with a boundary", code="invalid_form")
    return _split_form(raw, boundary.encode("latin-1"))


def _split_form(raw: bytes, boundary: bytes) -> FormBody:
    delimiter = b"--" + boundary
    parts: list[FormPart] = []
    at = 0 if raw.startswith(delimiter) else raw.find(b"\r\n" + delimiter) + 2
    if at == 1:
        raise _form_error("its boundary is not there")
    while True:
        after = at + len(delimiter)
        if raw.startswith(b"--", after):
            return FormBody(raw, boundary, parts, at)
        line_end = raw.find(b"\r\n", after, after + _MAX_HEAD_BYTES)
        if line_end < 0 or raw[after:line_end].strip(_PADDING):
            raise _form_error("a boundary is followed by something else")
        head_end = raw.find(b"\r\n\r\n", line_end, line_end + _MAX_HEAD_BYTES)
        if head_end < 0:
            raise _form_error("a part has no head, or too large a one")
        begin = head_end + 4
        end = raw.find(b"\r\n" + delimiter, begin - 2)
        if end < 0:
            raise _form_error("it is cut")
        parts.append(_read_part(raw[line_end + 2 : head_end + 2], begin, max(end, begin)))
        if len(parts) > _MAX_PARTS:
            raise _form_error(f"it has more than {_MAX_PARTS} parts")
        at = end + 2


def _read_part(head: bytes, begin: int, end: int) -> FormPart:
    found = _DISPOSITION.findall(head)
    if len(found) != 1:
        raise _form_error("a part needs one Content-Disposition")
    disposition = Message()
    disposition["content-disposition"] = found[0].decode("utf-8", "replace").strip()
    name = disposition.get_param("name", header="content-disposition")
    if not isinstance(name, str) or not name:
        raise _form_error("a part has no name")
    return FormPart(name, disposition.get_filename() is not None, begin, end)


def _form_error(problem: str) -> BadBodyError:
    return BadBodyError(f"the body is no valid form: {problem}", code="invalid_form")


def _decode_lines(text: str) -> list[Any]:
    lines: list[Any] = []
    for line in text.splitlines():
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            value = line
        lines.append(value if isinstance(value, dict | list) else line)
    return lines


def _encode_value(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)
