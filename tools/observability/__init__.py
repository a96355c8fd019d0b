"""What Prometheus and Grafana are told of Radixway: rules and dashboards, as Python that is easy to change.

`tools/observability_files.py` writes them to deploy/.
"""
