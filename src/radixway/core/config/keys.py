"""The `keys` section: keys, users, teams and budgets that are made while the gateway runs."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr
from yarl import URL

from radixway.core.config.base import ConfigSection

_DATABASES = ("sqlite", "postgresql", "postgres")


def _check_database(given: SecretStr) -> SecretStr:
    kind = given.get_secret_value().partition(":")[0].partition("+")[0]
    if kind not in _DATABASES:
        raise ValueError("a database's URL is sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME")
    return given


def _check_webhook(given: SecretStr) -> SecretStr:
    url = URL(given.get_secret_value())
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise ValueError("a webhook's address is http(s)://host/path")
    return given


DatabaseUrl = Annotated[SecretStr, AfterValidator(_check_database)]
WebhookUrl = Annotated[SecretStr, AfterValidator(_check_webhook)]


class BudgetAlertsConfig(ConfigSection):
    """Where it is told that a budget's soft or hard end was reached. An address may hold a secret."""

    webhook: WebhookUrl | None = None
    """Gets a POST with JSON for each."""
    slack: WebhookUrl | None = None
    """A Slack app's incoming webhook."""
    timeout_s: float = Field(default=10.0, gt=0)
    """How long one delivery may take."""
    attempts: int = Field(default=6, ge=1)
    """Deliveries tried, with twice the pause after each. Then another gateway, or this one later, tries."""


class KeysConfig(ConfigSection):
    """The store of keys, users, teams and budgets."""

    enabled: bool | None = None
    """By default where there is `gateway.admin_key`, a `database`, or the file from an earlier run."""
    database: DatabaseUrl | None = None
    """By default access.sqlite in RADIXWAY_HOME. Gateways that share a PostgreSQL database share it all."""
    sync_s: float = Field(default=1.0, gt=0, le=60)
    """How often what other gateways changed is read, and what was spent here is written."""
    currency: str = Field(default="USD", min_length=1, max_length=16)
    """Currency of all budgets; costs of models that are priced in another one count for none."""
    alerts: BudgetAlertsConfig = BudgetAlertsConfig()

    def is_on(self, home: Path, *, has_admin_key: bool) -> bool:
        """Return whether the store is used; `home`: where its file would be."""
        if self.enabled is not None:
            return self.enabled
        return has_admin_key or self.database is not None or (home / "access.sqlite").exists()

    def database_url(self, home: Path) -> str:
        """Return the URL of the database, by default of a file in `home`."""
        if self.database is not None:
            return self.database.get_secret_value()
        return f"sqlite:///{home / 'access.sqlite'}"
