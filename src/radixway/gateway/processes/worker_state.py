"""Changes that calls have made to the fleet: reported by the first child to the others.

The configuration and discovery are each child's own, so they are not reported. A report is the whole of the
rest, and replaces the one before, so that nothing has to arrive in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from pydantic import SecretStr

from radixway.cluster import WorkerRegistrations
from radixway.core.config import WorkerSettings
from radixway.routing import (
    API,
    CONFIG,
    REGISTERED,
    DiscoveredWorker,
    FleetMembership,
    HealthMonitor,
    WeightVersionTracker,
    WorkerRegistry,
    WorkerState,
)


class ReportedWorker(msgspec.Struct, frozen=True):
    """A worker that a call added, or that registered itself."""

    section: dict[str, Any]
    source: str
    ttl_s: float | None = None
    """Of a registered one."""


class WorkerStateReport(msgspec.Struct, frozen=True):
    """The first child's workers, as far as calls have changed them."""

    workers: list[ReportedWorker]
    removed: list[str]
    """URLs of configured workers that a call removed."""
    draining: list[str]
    expected_version: str | None
    versions: dict[str, str]
    """Weight versions, by URL."""


def encode_report(report: WorkerStateReport) -> bytes:
    """Return `report` as JSON, keys of workers included."""
    return msgspec.json.encode(report, enc_hook=_reveal_secret)


decode_report = msgspec.json.Decoder(WorkerStateReport).decode


def _reveal_secret(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


class WorkerStateCopy:
    """Reads and applies reports. Belongs to the event loop of its gateway."""

    def __init__(
        self,
        registry: WorkerRegistry,
        membership: FleetMembership,
        registrations: WorkerRegistrations,
        weights: WeightVersionTracker,
        health: HealthMonitor,
    ) -> None:
        self._registry = registry
        self._membership = membership
        self._registrations = registrations
        self._weights = weights
        self._health = health

    def on_remove(self, notify: Callable[[], None]) -> None:
        """Call `notify` whenever a worker is removed."""
        self._registry.on_remove.append(lambda _: notify())

    def make_report(self) -> WorkerStateReport:
        """Return the report of this child."""
        members = self._membership
        reported = [
            ReportedWorker(_dump(found.section), source, self._registrations.lease_ttl_s(found.section.url))
            for source in (API, REGISTERED)
            for found in members.members_of(source)
        ]
        configured = [found.section.url for found in members.members_of(CONFIG)]
        return WorkerStateReport(
            reported,
            [url for url in configured if self._registry.get_worker(url) is None],
            sorted(worker.url for worker in self._registry if worker.state is WorkerState.DRAINING),
            self._weights.expected,
            {worker.url: worker.weight_version for worker in self._registry if worker.weight_version},
        )

    async def apply_report(self, report: WorkerStateReport, *, takes_leases: bool) -> None:
        """Make this child's workers those of `report`, and wait until new ones have been probed.

        `takes_leases`: end registrations when they are over.
        """
        members, registry = self._membership, self._registry
        for source in (API, REGISTERED):
            reported = {each.section["url"]: each for each in report.workers if each.source == source}
            for found in list(members.members_of(source)):
                if found.section.url not in reported:
                    members.remove_member(source, found.section.url)
            for each in reported.values():
                section = WorkerSettings.model_validate(each.section)
                if source == REGISTERED and takes_leases:
                    self._registrations.register_worker(section, each.ttl_s)
                else:
                    members.add_member(source, DiscoveredWorker(section))
        for url in report.removed:
            if registry.get_worker(url) is not None:
                registry.remove_worker(url)
        self._apply_draining(frozenset(report.draining))
        self._apply_versions(report)
        joining = (worker for worker in registry if worker.state is WorkerState.JOINING)
        await asyncio.gather(*map(self._health.wait_first_probe, joining))

    def _apply_draining(self, draining: frozenset[str]) -> None:
        reported = {API, REGISTERED, CONFIG}
        for worker in list(self._registry):
            drains = worker.state is WorkerState.DRAINING
            if worker.url in draining and not drains:
                self._registry.set_state(worker, WorkerState.DRAINING)
            elif drains and worker.url not in draining and reported.issuperset(worker.sources):
                self._registry.add_worker(worker.config)  # it came back

    def _apply_versions(self, report: WorkerStateReport) -> None:
        taken = {
            worker: version
            for worker in self._registry
            if (version := report.versions.get(worker.url)) not in (None, worker.weight_version)
        }
        if taken:
            self._weights.record_update(taken, (), None)
        if report.expected_version != self._weights.expected:
            self._weights.set_expected(report.expected_version)


def _dump(section: WorkerSettings) -> dict[str, Any]:
    return section.model_dump(exclude_unset=True)
