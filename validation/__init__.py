"""Published figures with their source, and what is computed again from them, by document."""
