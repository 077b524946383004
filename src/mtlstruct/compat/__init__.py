"""Modules with the interfaces of python-crfsuite and sklearn-crfsuite, trained and run by mtlstruct.

Imports anything below `cli`. Read `pycrfsuite`, then `sklearn_crfsuite`.
"""
