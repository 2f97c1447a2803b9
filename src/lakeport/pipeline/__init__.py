"""All loads of a lake's file: in order, side by side, and what came of each."""
