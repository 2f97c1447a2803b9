"""Pictures as inline SVG, each a function of plain values."""
