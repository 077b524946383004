"""Feature extraction: templates and a corpus give A and the index that repeats it on new text.

May import: `templates`, `formats`, `linear`, `structures` and the layers below.
Start reading at `index.FeatureIndex` and `extraction`.
"""
