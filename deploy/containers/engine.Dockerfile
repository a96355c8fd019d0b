# The embedded engine, on processors; on GPUs vLLM or SGLang serve:
#   docker build -f deploy/containers/engine.Dockerfile -t radixway/engine:0.1.0 .
FROM python:3.11.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY src ./src
# torch's version is exact in constraints.txt: an open one would bring CUDA's gigabytes with it.
RUN python -m venv /opt/radixway \
    && /opt/radixway/bin/python -m pip install --no-cache-dir -c constraints.txt ".[engine]"

FROM python:3.11.11-slim-bookworm
LABEL org.opencontainers.image.title="Radixway engine" org.opencontainers.image.licenses="Apache-2.0"
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
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["radixway"]
# Every address of a container's is its own, and who reaches them is said outside: by -p, by networks. Where others
# than gateways do, take --insecure away and give it a key: RADIXWAY__ENGINE__API_KEY.
CMD ["engine", "--host", "0.0.0.0", "--port", "8000", "--insecure"]
