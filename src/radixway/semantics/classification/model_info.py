"""What judges texts here, and what of it runs: facts only; classifiers are not loaded for them."""

import platform
import sys
from pathlib import Path
from typing import Protocol, runtime_checkable

from radixway.core.pipeline import AttackJudge, PersonalDataFinder
from radixway.semantics.classification.service import ClassificationService
from radixway.semantics.classification.tasks import Answer, ClassificationTasks
from radixway.semantics.decisions.rule_compiler import collect_categories


def describe_models(service: ClassificationService) -> Answer:
    """`/info/models`: every model with whether it is loaded, and the process."""
    return {
        "models": [
            _describe_domain_model(service),
            _describe_guard_model("pii_classifier", "pii_detection", service.finder),
            _describe_guard_model("jailbreak_classifier", "security_detection", service.judge),
            _describe_encoder(service),
        ],
        "system": {
            "python_version": platform.python_version(),
            "architecture": platform.machine(),
            "os": sys.platform,
            "memory_usage": _process_memory(),
        },
    }


def describe_classifier(tasks: ClassificationTasks) -> Answer:
    """`/info/classifier`: what can be asked, in which categories, and how long it took so far."""
    service = tasks.room
    section, finder, judge = service.snapshot.section, service.finder, service.judge
    can_encode = service.encoders.failure is None
    capabilities = {
        "intent_classification": "domain" in service.snapshot.detectors,
        "pii_detection": can_encode and _is_available(finder),
        "security_detection": can_encode and _is_available(judge),
        "similarity_matching": can_encode,
    }
    threshold = section.classifier.category_model.threshold
    return {
        "status": "active" if can_encode else "unavailable",
        "capabilities": [name for name, there in capabilities.items() if there],
        "categories": [
            {
                "name": category.name,
                "description": category.description,
                "mmlu_categories": list(category.labels()),
                "threshold": threshold,
            }
            for category in collect_categories(section)
        ],
        "decisions": [
            {
                "name": decision.name,
                "description": decision.description,
                "priority": decision.priority,
                "reasoning_enabled": any(ref.use_reasoning for ref in decision.model_refs),
            }
            for decision in section.decisions
        ],
        "pii_types": list(finder.types) if finder is not None else [],
        "security": {
            "jailbreak_detection": judge is not None,
            "detection_types": list(judge.kinds) if judge is not None else [],
            "enabled": judge is not None,
        },
        "performance": {
            "average_latency_ms": tasks.spent_s / tasks.answered * 1e3 if tasks.answered else None,
            "requests_handled": tasks.answered,
        },
        "configuration": {
            "category_threshold": threshold,
            "pii_threshold": finder.threshold if finder is not None else None,
            "jailbreak_threshold": judge.threshold if judge is not None else None,
            "similarity_threshold": section.bert_model.threshold,
            "max_batch_size": section.api.batch_classification.max_batch_size,
        },
    }


def _is_available(guard: PersonalDataFinder | AttackJudge | None) -> bool:
    return guard is not None and not (isinstance(guard, _LocatedModel) and guard.failure is not None)


def _describe_domain_model(service: ClassificationService) -> Answer:
    from radixway.semantics.encoders.classifiers.category_head import CategoryEncoder

    snapshot, section, encoder = service.snapshot, service.snapshot.section, service.encoders.encoder
    entry = _model_entry("category_classifier", "intent_classification", "domain" in snapshot.detectors)
    return entry | {
        "model_path": encoder.path.name
        if isinstance(encoder, CategoryEncoder)
        else "bundled/heads/domain.npz",
        "categories": [category.name for category in collect_categories(section)],
        "metadata": {"threshold": f"{section.classifier.category_model.threshold:.2f}"},
    }


@runtime_checkable
class _LocatedModel(Protocol):
    """Has a description of its model."""

    @property
    def path(self) -> Path | None: ...

    @property
    def failure(self) -> str | None: ...


def _describe_guard_model(name: str, kind: str, guard: PersonalDataFinder | AttackJudge | None) -> Answer:
    if guard is None:
        return _model_entry(name, kind, loaded=False) | {"metadata": {"status": "not configured"}}
    path, failure = (guard.path, guard.failure) if isinstance(guard, _LocatedModel) else (None, None)
    entry = _model_entry(name, kind, failure is None, path, failure)
    return entry | {"metadata": {"threshold": f"{guard.threshold:.2f}"}}


def _describe_encoder(service: ClassificationService) -> Answer:
    encoder, failure = service.encoders.encoder, service.encoders.failure
    entry = _model_entry("sentence_encoder", "similarity", encoder is not None, failure=failure)
    if encoder is None:
        return entry
    return entry | {"model_path": encoder.id, "metadata": {"dimension": str(encoder.size)}}


def _model_entry(
    name: str, kind: str, loaded: bool, path: Path | None = None, failure: str | None = None
) -> Answer:
    entry: Answer = {"name": name, "type": kind, "loaded": loaded}
    if path is not None:
        entry["model_path"] = path.name
    if failure is not None:
        entry["error"] = failure
    return entry


def _process_memory() -> str | None:
    """Return resident memory, where the system reports it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    import resource

    return f"{pages * resource.getpagesize() / 1e6:.2f} MB"
