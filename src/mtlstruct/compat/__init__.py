"""Drop-in modules: the interfaces of python-crfsuite and sklearn-crfsuite.

May import: everything below `cli`.
Start reading at `pycrfsuite`, then `sklearn_crfsuite`.
"""
