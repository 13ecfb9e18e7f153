"""What the checks of all documents share."""
