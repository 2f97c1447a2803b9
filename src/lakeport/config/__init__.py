"""What the user asked for: frozen, checked before anything is read or written.

`load` turns a folder, a URI, a config file or a mapping into one `DestinationConfig`, and is
the only reader of the environment; each store has a module with its keys.
"""
