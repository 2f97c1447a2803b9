"""JSON: documents and lines -> typed columns, exactly as declared or with the fault named."""
