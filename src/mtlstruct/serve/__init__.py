"""A model behind a page and a JSON API, for one's own machine or, with a token, for a network.

Starlette and uvicorn (the extra `serve`) are imported here only.
May import: `report` and the layers below.
Start reading at `app` (routes and access rules), `requests` and `responses`.
"""
