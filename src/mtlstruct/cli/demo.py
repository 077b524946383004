def demo() -> None:
    "later"
