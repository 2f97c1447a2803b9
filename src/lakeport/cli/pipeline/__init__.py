"""The command about a lake's file."""
