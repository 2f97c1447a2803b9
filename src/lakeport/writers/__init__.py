"""Writers: each knows one format, and reaches any cloud through `model.Storage`."""
