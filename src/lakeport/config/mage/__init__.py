"""Config in Mage's formats: `io_config.yaml`, templates, catalogs and streaming sinks."""
