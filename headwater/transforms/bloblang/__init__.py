"""The subset of Bloblang for filter expressions: from text to syntax tree to function."""
