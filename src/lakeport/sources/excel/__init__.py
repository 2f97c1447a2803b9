"""Excel workbooks: a sheet's cells as CSV whose columns have types already."""
