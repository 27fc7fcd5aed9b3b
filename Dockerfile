# The image of fieldcache: docker build --tag fieldcache . (podman and buildah too), or `make image`.
#
# The second stage is the file tree that image/assemble.sh makes, and nothing else: the program, the three libraries it names with
# their loader, passwd, group and nsswitch.conf. No shell, no package manager, no distribution. Where there is no container engine,
# `make image-root` makes the same tree with the same script and runs the program inside it, which is also how it is tested.
#
# glibc, not musl, which would save the 3 MB of these libraries. The program allocates with jemalloc on either, but the C libraries in
# it (zstd, libdeflate) use the allocator of the C library, and musl's has one lock for all threads. Not a static glibc either: it
# looks names up with shared libraries all the same. The price: scanners that ask a package database find none here, so
# the libraries are as new as the base image of the build: after a fix of glibc, update the digest below and build again.
#
# No authorities of certificates: in a cluster the API server is known by the ServiceAccount's ca.crt, and no other server is called. A
# kubeconfig for `serve` must name its certificate-authority, as those of clusters do.
#
# Not the slim variant: the build of the allocator (jemalloc) needs make. The base image of the build is named by digest, so that a tag
# that moves changes nothing here. The digest is that of the image index (all architectures). To update: change the tag and the digest
# together; `docker buildx imagetools inspect rust:TAG` prints it.
FROM rust:1.95.0-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1 AS build
WORKDIR /source
# Cargo reads the whole workspace before it builds one package of it.
COPY Cargo.toml Cargo.lock ./
COPY e2e/Cargo.toml e2e/
COPY e2e/src e2e/src
COPY src src
COPY crates crates
RUN cargo build --release --locked --package fieldcache
COPY image image
RUN image/assemble.sh target/release/fieldcache /image-root

FROM scratch
LABEL org.opencontainers.image.title="fieldcache" \
      org.opencontainers.image.description="Field-filtered informer caches for Kubernetes: one indexed store per cluster" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /image-root /
# By number: Kubernetes must see that it is not root. Its name stands in image/root/etc/passwd.
USER 65532:65532
EXPOSE 8443 9090 8081
ENTRYPOINT ["/usr/bin/fieldcache"]
CMD ["operator"]
