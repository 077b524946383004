def write() -> None:
    pass
