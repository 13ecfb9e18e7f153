"""The PACER document against a result of `studies/pacer`: `python -m validation.pacer`."""
