"""A finished run for other systems: spans by OpenTelemetry.

    History + Verdict ─► spans ─► otlp: OTLP over HTTP, by the official SDK

Everything is sent when the run is over and judged, so it cannot disturb the run; what a receiver
refuses is reported once, and changes no verdict and no exit code.
"""
