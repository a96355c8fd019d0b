"""The table of rooms in docs/structure.md, held against what the code imports."""

import re
import tomllib

from support.pages import ROOT

SOURCE = ROOT / "src" / "radixway"
_IMPORT = re.compile(r"^\s*(?:from|import) radixway\.(\w+)", re.MULTILINE)
_ROW = re.compile(r"^\| (`[^|]*) \|[^|]*\| ([^|]*) \|$", re.MULTILINE)


def _rooms() -> list[str]:
    found = [path for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    return sorted(path.stem for path in found if not path.name.startswith("_"))


def _rows() -> dict[str, str]:
    """By room, what the table says that it imports; in the table's order."""
    table = (ROOT / "docs" / "structure.md").read_text().partition("\n## One chat completion")[0]
    name = re.compile(r"`(\w+)(?:/|\.py)`")
    return {room: may for rooms, may in _ROW.findall(table) for room in name.findall(rooms)}


def _imported(room: str) -> set[str]:
    path = SOURCE / room
    files = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
    return {name for file in files for name in _IMPORT.findall(file.read_text())} - {room}


def test_each_room_has_a_row():
    assert set(_rooms()) <= set(_rows())


def test_rooms_import_what_their_rows_say():
    rows = _rows()
    above: set[str] = set()
    wrong = {}
    for room, may in rows.items():
        said = set(re.findall(r"\w+", may)) | ({"bundled", "component", "config", "telemetry"} & above)
        if "all" not in said and room in _rooms() and (more := _imported(room) - said):
            wrong[room] = sorted(more)
        above.add(room)
    assert wrong == {}


def test_each_room_stands_in_a_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = " ".join(layer for contract in contracts for layer in contract.get("layers", []))
    bound = layers + " ".join(name for contract in contracts for name in contract.get("source_modules", []))
    free = [room for room in _rooms() if not re.search(rf"\bradixway\.{room}\b", bound)]
    assert free == ["bundled"]  # data
