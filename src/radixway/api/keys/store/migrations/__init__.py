"""Migrations of the tables: one step per file in `versions/`, run by Alembic."""

from pathlib import Path

FOLDER = Path(__file__).parent
