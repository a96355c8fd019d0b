"""What lies in a models folder, and what is used: LoRA BERT > LoRA RoBERTa > LoRA ModernBERT > others."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from radixway.semantics.encoders.base import EncoderError
from radixway.semantics.encoders.model_files import read_json_object

Task = Literal["category", "jailbreak", "pii"]

_WORDS: dict[Task, tuple[str, ...]] = {
    "category": ("intent", "category"),
    "jailbreak": ("jailbreak", "security", "prompt_guard"),
    "pii": ("pii",),
}
"""Names that the published models' directories contain."""

_PREFERRED = ("bert", "roberta", "modernbert")
_MAPPINGS = (
    "category_mapping.json",
    "jailbreak_type_mapping.json",
    "pii_type_mapping.json",
    "label_mapping.json",
)


@dataclass(slots=True, frozen=True)
class ClassifierFolder:
    """A classifier's directory."""

    task: Task
    path: Path
    architecture: str
    """`bert`, `roberta`, `modernbert` …; empty where nothing says."""
    lora: bool


def discover_classifiers(models: Path) -> dict[Task, ClassifierFolder]:
    """The preferred classifier of each task among the directories in `models`; none where there is no folder.

    Equals are taken in the order of their names.
    """
    if not models.is_dir():
        return {}
    candidates = [found for path in sorted(models.iterdir()) if (found := _inspect_folder(path)) is not None]
    best: dict[Task, ClassifierFolder] = {}
    for found in sorted(candidates, key=_rank):
        best.setdefault(found.task, found)
    return best


def read_labels(directory: Path, mapping: Path | None = None) -> tuple[str, ...]:
    """Labels in the order of the outputs: from `mapping`, or a mapping beside the model, or its config.json.

    Mappings are as published: `idx_to_category` or `idx_to_label`, or their inverses. Raises EncoderError.
    """
    mappings = [directory / name for name in _MAPPINGS]
    path = mapping or next((path for path in mappings if path.is_file()), directory / "config.json")
    values = read_json_object(path)
    for key in ("idx_to_category", "idx_to_label", "id2label"):
        if isinstance(values.get(key), dict):
            return _labels_by_index(path, values[key])
    for key in ("category_to_idx", "label_to_idx", "label2id"):
        if isinstance(values.get(key), dict):
            return _labels_by_index(path, {str(index): label for label, index in values[key].items()})
    raise EncoderError(f"{path}: there is no idx_to_category, idx_to_label or id2label")


def _inspect_folder(path: Path) -> ClassifierFolder | None:
    name = path.name.lower()
    task = next((task for task, words in _WORDS.items() if any(word in name for word in words)), None)
    adapter = (path / "adapter_config.json").is_file()
    if task is None or not (adapter or (path / "config.json").is_file()):
        return None
    lora = adapter or name.startswith("lora_") or (path / "lora_config.json").is_file()
    return ClassifierFolder(task, path, _architecture(path, name), lora)


def _architecture(path: Path, name: str) -> str:
    try:
        values = read_json_object(path / "config.json").get("model_type")
    except EncoderError:  # an adapter's directory has none; loading a broken one reports what is wrong
        values = None
    if isinstance(values, str):
        return values
    return next((known for known in ("modernbert", "roberta", "bert") if known in name), "")


def _rank(found: ClassifierFolder) -> int:
    if found.lora and found.architecture in _PREFERRED:
        return _PREFERRED.index(found.architecture)
    return len(_PREFERRED)


def _labels_by_index(path: Path, by_index: dict[str, Any]) -> tuple[str, ...]:
    try:
        labels = tuple(str(by_index[str(index)]) for index in range(len(by_index)))
    except KeyError as error:
        raise EncoderError(
            f"{path}: labels must be numbered from 0 without gaps; {error} is missing"
        ) from None
    if not labels:
        raise EncoderError(f"{path}: there are no labels")
    return labels
