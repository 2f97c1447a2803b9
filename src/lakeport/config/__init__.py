"""The user's configuration: immutable, and checked before anything is read or written.

`load` builds a `DestinationConfig` from a folder, a URI, a config file or a mapping, and from the
environment. `destinations` has a module for each store, `sources` the sources with options,
`lake` the lake file, and `mage` Mage's formats.
"""
