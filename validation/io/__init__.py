"""The document on Damaris and CM1 against itself and two models: `python -m validation.io`."""
