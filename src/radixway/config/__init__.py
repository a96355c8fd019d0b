"""The typed tree behind `radixway.yaml`: sections, loading, errors that name path and line."""
