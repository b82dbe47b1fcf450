"""Kinds of fault: settings, injection, heal, and evidence."""
