# The image of all programs of localpv. tools/image/build.py makes the same without Docker and without a registry,
# and reads the release, ENV, USER and ENTRYPOINT from here.
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip
COPY pyproject.toml README.md LICENSE /source/
COPY src /source/src
RUN pip install --no-compile --only-binary :all: --no-binary localpv --target /opt/localpv /source \
    && rm -rf /opt/localpv/bin \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/localpv

FROM debian:bookworm-slim
COPY tools/image/packages.txt tools/image/slim.sh /tmp/
RUN apt-get update \
    && xargs apt-get install -y --no-install-recommends </tmp/packages.txt \
    && sh /tmp/slim.sh \
    && rm /tmp/packages.txt /tmp/slim.sh
COPY --from=build /opt/localpv /opt/localpv
COPY tools/image/localpv /usr/local/bin/localpv
ENV PYTHONPATH=/opt/localpv PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# The classic DaemonSet names no user, and to empty volumes takes root. Our own manifests name one for every pod.
USER 0:0
ENTRYPOINT ["/usr/local/bin/localpv"]
