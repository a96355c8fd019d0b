"""Loggers are the process's: what a test makes of them is undone."""

import logging

import pytest

NAMES = ("radixway", "radixway.requests", "uvicorn.error", "asyncio")


@pytest.fixture(autouse=True)
def loggers_stay_as_they_were():
    loggers = [logging.getLogger(name) for name in NAMES]
    before = [(each.handlers, each.propagate, each.level, each.filters[:]) for each in loggers]
    yield
    for logger, (handlers, propagate, level, filters) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate, logger.filters = handlers, propagate, filters
        logger.setLevel(level)
