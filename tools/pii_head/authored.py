"""What was written for training: templates, prompts and words, in files of lines."""

from pathlib import Path

AUTHORED = Path(__file__).parents[1] / "pii_data"


def authored_templates(name: str, kind: str = "templates") -> list[str]:
    """The lines of `{kind}_{name}.txt`; a line break, two characters there, is one here."""
    lines = (AUTHORED / f"{kind}_{name}.txt").read_text("utf-8").splitlines()
    return [broken(line) for line in lines if line and not line.startswith("#")]


def vocabulary(name: str, what: str = "vocabulary") -> dict[str, list[str]]:
    """Words by kind, from `{what}_{name}.txt`."""
    lines = (AUTHORED / f"{what}_{name}.txt").read_text("utf-8").splitlines()
    parted = (line.partition(": ") for line in lines if not line.startswith("#"))
    return {kind: words.split("|") for kind, _, words in parted}


def broken(line: str) -> str:
    """With its line breaks."""
    return line.replace("\\n", "\n")
