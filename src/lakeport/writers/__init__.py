"""Writers of Delta tables and of plain files, which reach any store through `model.Storage`."""
