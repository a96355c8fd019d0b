"""Metrics in Prometheus' words: counters, gauges read at each scrape, and their exposition.

`docs/metrics.md` lists all of them; a test compares it with a live gateway. Label values are bounded: our
own words, served models, configured tenants, workers of the fleet.
"""
