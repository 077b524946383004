"""Hostile input: what must never crash, hang or eat memory, whatever bytes it is given. See docs/reliability.md."""
