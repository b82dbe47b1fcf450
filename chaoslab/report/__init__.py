"""Verdicts and records for readers: terminal, page, files."""
