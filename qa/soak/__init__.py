"""Long runs that must end as they began: a server under bad requests, training again and again in one process."""
