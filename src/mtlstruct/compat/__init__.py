"""Drop-in modules: the interfaces of python-crfsuite and sklearn-crfsuite.

Imports anything below `cli`. Read `pycrfsuite`, then `sklearn_crfsuite`.
"""
