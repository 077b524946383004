"""The trained model: scoring, decoding, probabilities, calibration and the model file.

May import: `features`, `structures` and the layers below; no solver.
Start reading at `model.Model`, `lattice.Lattice` and `serialization`, the model file.
"""
