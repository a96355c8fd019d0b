"""The ground that every package stands on: configuration, the pipeline and its requests, HTTP, the wire
protocols of models, telemetry, tenants, tokenizers.

Start at `core/pipeline/`: `Request`, `Reply`, `Middleware`, and the declared `Endpoint`s. Imports nothing
above itself.
"""
