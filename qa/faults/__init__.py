"""Kills and full disks: every run resumes to the same bytes, and no file is half-written."""
