"""HTTP server of a model: a page and a JSON API, for one machine or, with a token, a network.

Starlette and uvicorn (the extra `serve`) are imported here only.
May import: `report` and the layers below.
Start reading at `app` (routes and access rules), `requests.RequestReader`.
"""
