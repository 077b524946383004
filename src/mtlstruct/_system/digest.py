"""JSON values as text, and their digests."""

import hashlib
import json
import math
from typing import Any


def digest(value: Any) -> str:
    """Return a digest of a JSON value that does not depend on the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def to_json(value: Any) -> str:
    """Return strict JSON: numbers that are not finite become null."""
    return json.dumps(finite(value), ensure_ascii=False, allow_nan=False)


def finite(value: Any) -> Any:
    """Return a JSON value with null in place of numbers that are not finite."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
