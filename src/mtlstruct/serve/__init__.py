"""A model behind a small page and a JSON API, for one's own machine or, with a token, for a network.

`questions` reads requests, `answers` makes responses, `worker` is the one thread that answers, `app` the routes and
what guards them, `server` the process. Starlette and uvicorn are imported here and nowhere else (the extra `serve`).
"""
