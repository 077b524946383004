"""Structured prediction from feature templates, where the templates weigh themselves."""

__version__ = "0.1.0"
