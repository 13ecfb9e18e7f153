"""Files that users write and results keep: TOML documents, quantities with units."""
