# lakeport with Java and the jars of every destination; a container needs no network but the lake's.
#
#   docker build . --tag lakeport:1                         # the command line
#   docker build . --tag lakeport-spark:1 --target spark    # Spark's pods on Kubernetes
# hadolint global ignore=DL3008
# Debian keeps one version of a package, the one with the newest fixes: a pinned one is soon gone.
ARG BASE=debian:trixie-20261005-slim@sha256:a29215f6a35e51e22adffa17f89e9d2ef06214e64a2bad10d765c46aea49f11f

FROM ${BASE} AS python
# Spark refuses a user without a name; libnss-unknown gives every id one, also those of OpenShift and
# of `docker run --user`.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates libnss-unknown python3 \
    && rm -rf /var/lib/apt/lists/*

FROM python AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-venv \
    && rm -rf /var/lib/apt/lists/*
# pip stays in this stage: it installs into an environment that has none.
RUN python3 -m venv /opt/pip && python3 -m venv --without-pip /opt/lakeport
WORKDIR /src
COPY LICENSE README.md THIRD-PARTY-NOTICES.txt hatch_build.py pyproject.toml requirements.lock ./
COPY docs docs
COPY src src
RUN /opt/pip/bin/pip --python /opt/lakeport/bin/python install --no-cache-dir \
        --constraint requirements.lock '.[all]' \
    && rm -r /opt/lakeport/lib/python3*/site-packages/pandas/tests \
        /opt/lakeport/lib/python3*/site-packages/pyarrow/tests
RUN LAKEPORT_CACHE=/opt/lakeport/cache /opt/lakeport/bin/lakeport jars --for all

FROM python AS lakeport
LABEL org.opencontainers.image.title="lakeport" \
    org.opencontainers.image.description="Lands Singer streams, files and frames in a data lake: Parquet, CSV or Delta, on Spark." \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.source="https://github.com/lakeport/lakeport" \
    org.opencontainers.image.documentation="https://github.com/lakeport/lakeport/tree/main/docs/container.md"
COPY --from=build /opt/lakeport /opt/lakeport
# A container writes to /tmp and its lake alone: no archive of Java's classes is made.
ENV PATH=/opt/lakeport/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LAKEPORT_CACHE=/opt/lakeport/cache \
    LAKEPORT_CDS=use \
    HOME=/tmp \
    LANG=C.UTF-8
WORKDIR /work
USER 10001
ENTRYPOINT ["lakeport"]

# Spark starts its pods with a module of Java that the package's cut-down one lacks.
FROM lakeport AS spark
USER 0
# Java's package links its manuals into a folder that slim images have not.
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-21-jre-headless \
    && rm -rf /var/lib/apt/lists/*
COPY deploy/spark-pod /usr/local/bin/spark-pod
USER 10001
ENTRYPOINT ["spark-pod"]

FROM lakeport
