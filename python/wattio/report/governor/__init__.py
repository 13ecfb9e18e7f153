"""The page of a result of `wattiod`."""
