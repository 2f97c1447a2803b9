"""Sources of JSON: documents and lines become typed columns, exactly as declared or inferred."""
