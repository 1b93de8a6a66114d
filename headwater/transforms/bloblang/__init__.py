"""The part of Bloblang that filter expressions are written in: from text to syntax tree to function."""
