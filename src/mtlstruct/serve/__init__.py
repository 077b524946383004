"""A model behind a page and a JSON API, for one's own machine or, with a token, for a network.

`requests` reads requests, `responses` makes answers, `app` has the routes and the access rules,
`server` the process. May import: `report` and the layers below. Starlette and uvicorn (the extra
`serve`) are imported here only.
"""
