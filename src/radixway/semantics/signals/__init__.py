"""Signals: what is measured of a request before rules decide, each by a `SignalDetector`.

Start at `base.py`, the contract of a detector and of the set that its findings make.
"""
