"""Training: teacher annotation, packing, SFT, distillation and GSPO, the nano model, and the backends that run them.

Importing this package loads no torch: modules import it when they are used (extra ``train``).
"""
