"""This machine: processes, scratch and cache folders, installed packages, warm sessions."""
