"""The bundled recipe corpus of the demo.

May import: `formats` and the layers below.
Start reading at `recipes`.
"""
