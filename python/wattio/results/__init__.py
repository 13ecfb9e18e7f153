"""The result of any kind of study: its catalog, its folder, and deriving it again."""
