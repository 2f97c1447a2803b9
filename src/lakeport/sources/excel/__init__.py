"""Sources of Excel workbooks: a sheet's cells become CSV whose columns have types already."""
