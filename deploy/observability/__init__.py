"""Dashboards for Grafana, and rules and an example configuration for Prometheus."""
